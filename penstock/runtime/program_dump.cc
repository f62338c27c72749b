#include "penstock/runtime/program_dump.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;

// Suffixes of XLA's files, and their new suffixes.
struct Ending {
  const char* xla;
  const char* ours;
};
constexpr Ending kEndings[] = {
    {"after_optimizations.txt", ".optimized.hlo.txt"},
    {"after_optimizations-buffer-assignment.txt", ".buffers.txt"},
};

absl::Status Failed(const std::error_code& error, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("the program's text cannot be written to ", path, ": ", error.message()));
}

// A program's name as a file name.
std::string FileName(const std::string& name) {
  std::string out = name.empty() ? "program" : name;
  for (char& c : out) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  }
  return out;
}

// The temporary folder for XLA, which writes a dozen files with names of its own.
std::string ScratchOf(const std::string& path) { return path + ".xla"; }

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramDump>> ProgramDump::Open(const std::string& asked) {
  std::string folder = asked;
  if (folder.empty()) {
    const char* variable = std::getenv("PENSTOCK_DUMP_HLO");
    folder = variable == nullptr ? "" : variable;
  }
  if (folder.empty()) return nullptr;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Failed(error, folder);
  return std::unique_ptr<ProgramDump>(new ProgramDump(std::move(folder)));
}

absl::StatusOr<ProgramDump::Files> ProgramDump::WriteText(const ir::Program& program) {
  Files files;
  files.path_ = absl::StrFormat("%s/%03d-%s", folder_, ++count_, FileName(program.name));
  const std::string path = files.path_ + ".stablehlo.mlir";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << program.text;
  file.close();
  if (!file) return Failed(std::error_code(errno, std::generic_category()), path);
  return files;
}

std::vector<std::pair<std::string, std::string>> ProgramDump::Files::xla_flags() const {
  return {{"xla_dump_to", ScratchOf(path_)}, {"xla_dump_hlo_as_text", "true"}};
}

absl::Status ProgramDump::Files::CollectOptimized() const {
  const std::string scratch = ScratchOf(path_);
  std::error_code error;
  for (const Ending& ending : kEndings) {
    const std::string to = path_ + ending.ours;
    fs::remove(to, error);  // of an earlier run
    for (const auto& entry : fs::directory_iterator(scratch, error)) {
      if (!absl::EndsWith(entry.path().string(), ending.xla)) continue;
      std::error_code moved;
      fs::rename(entry.path(), to, moved);
      if (moved) return Failed(moved, to);
      break;
    }
  }
  fs::remove_all(scratch, error);
  return absl::OkStatus();
}

}  // namespace penstock::runtime
