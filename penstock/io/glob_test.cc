#include "penstock/io/glob.h"

#include "absl/strings/str_cat.h"
#include <fnmatch.h>
#include <gtest/gtest.h>

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::io {
namespace glob_test {

// All strings over `letters` of at most `length` characters.
std::vector<std::string> AllStrings(absl::string_view letters, int length) {
  std::vector<std::string> all = {""};
  for (size_t begin = 0; length > 0; --length) {
    const size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const char letter : letters)
        all.push_back(absl::StrCat(all[begin], std::string(1, letter)));
    }
  }
  return all;
}

// Reference: POSIX fnmatch, for every short pattern and name over characters with a special
// meaning.
TEST(Glob, MatchesFnmatchForEveryShortPattern) {
  const std::vector<std::string> names = AllStrings("ab-].", 3);
  for (const std::string& pattern : AllStrings("ab*?[]!-.", 4)) {
    for (const std::string& name : names) {
      const bool expected =
          ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE | FNM_PERIOD | FNM_PATHNAME) == 0;
      ASSERT_EQ(SegmentMatches(pattern, name), expected) << "'" << pattern << "' '" << name << "'";
    }
  }
}

TEST(Glob, MatchesFnmatchWithBacktracking) {
  const std::vector<std::string> names = AllStrings("ab", 9);
  for (const std::string& pattern : AllStrings("ab*", 6)) {
    for (const std::string& name : names) {
      ASSERT_EQ(SegmentMatches(pattern, name), ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
          << "'" << pattern << "' '" << name << "'";
    }
  }
}

TEST(Glob, CountsCharactersNotBytes) {
  EXPECT_TRUE(SegmentMatches("?.txt", "é.txt"));
  EXPECT_TRUE(SegmentMatches("?.txt", "🌊.txt"));
  EXPECT_FALSE(SegmentMatches("??.txt", "é.txt"));
  EXPECT_TRUE(SegmentMatches("[éè]*", "étude"));
  EXPECT_FALSE(SegmentMatches("[!é]*", "étude"));
  EXPECT_TRUE(SegmentMatches("[а-я]", "ж"));
  EXPECT_FALSE(SegmentMatches("[а-я]", "z"));
  EXPECT_TRUE(SegmentMatches("*水*", "川水川"));
  // A byte that is not valid UTF-8 counts as one character.
  EXPECT_TRUE(SegmentMatches("?", "\xff"));
  EXPECT_TRUE(SegmentMatches("??", "\xc3("));
}

TEST(Glob, FindsTheFileWhoseNameLooksLikeAPattern) {
  const auto fs = MakeMemoryFileSystem();
  const std::string name = "memory://run[1]/a?.txt";
  ASSERT_TRUE(WriteFile(*fs, name, "x").ok());
  const auto found = Glob(*fs, name);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<std::string>{name});
  // What matches as a pattern comes first.
  ASSERT_TRUE(WriteFile(*fs, "memory://run1/ab.txt", "x").ok());
  EXPECT_EQ(*Glob(*fs, name), std::vector<std::string>{"memory://run1/ab.txt"});
  EXPECT_TRUE(absl::IsNotFound(Glob(*fs, "memory://run[2]/a?.txt").status()));
}

TEST(Glob, RunsInPolynomialTimeWithManyStars) {
  // Exponential backtracking would never finish.
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(SegmentMatches(pattern + "b", std::string(1000, 'a')));
  std::string deep, path;
  for (int i = 0; i < 50; ++i) deep += "**/a/";
  for (int i = 0; i < 200; ++i) path += "a/";
  EXPECT_FALSE(PathMatches(deep + "b", path + "a"));
}

// Reference implementation of "**": tries every number of path components.
bool Reference(const std::vector<std::string>& pattern, size_t i,
               const std::vector<std::string>& path, size_t j) {
  if (i == pattern.size()) return j == path.size();
  if (pattern[i] == "**") {
    return Reference(pattern, i + 1, path, j) ||
           (j < path.size() && path[j][0] != '.' && Reference(pattern, i, path, j + 1));
  }
  return j < path.size() && SegmentMatches(pattern[i], path[j]) &&
         Reference(pattern, i + 1, path, j + 1);
}

std::string Join(const std::vector<std::string>& steps) {
  std::string out;
  for (const std::string& step : steps) absl::StrAppend(&out, out.empty() ? "" : "/", step);
  return out;
}

std::vector<std::vector<std::string>> AllPaths(const std::vector<std::string>& steps, int length) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& step : steps) all.push_back({step});
  for (size_t begin = 0; length > 1; --length) {
    const size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const std::string& step : steps) {
        all.push_back(all[begin]);
        all.back().push_back(step);
      }
    }
  }
  return all;
}

TEST(Glob, DoubleStarMatchesAnyNumberOfFolders) {
  const auto paths = AllPaths({"a", "b", ".h"}, 4);
  for (const auto& pattern : AllPaths({"a", "**", "*", ".h"}, 4)) {
    for (const auto& path : paths) {
      ASSERT_EQ(PathMatches(Join(pattern), Join(path)), Reference(pattern, 0, path, 0))
          << Join(pattern) << " " << Join(path);
    }
  }
}

TEST(Glob, DistinguishesPatternsFromNames) {
  for (const char* pattern : {"*", "a?", "x[1]"}) EXPECT_TRUE(HasWildcard(pattern)) << pattern;
  for (const char* name : {"", "a", "a]", "{a,b}", "a\\b"}) EXPECT_FALSE(HasWildcard(name)) << name;
}

TEST(IsPattern, ConsidersPathWithoutOptions) {
  for (const char* pattern :
       {"a?", "/data/*.jpg", "gs://b/a?", "gs://b/*.jpg?project_id=p", "[ab]"}) {
    EXPECT_TRUE(IsPattern(pattern)) << pattern;
  }
  for (const char* name : {"a", "/data/a.jpg", "gs://b/a?project_id=p", "s3://b/d?region=eu", ""}) {
    EXPECT_FALSE(IsPattern(name)) << name;
  }
}

}  // namespace glob_test
}  // namespace penstock::io
