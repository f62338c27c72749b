#include "penstock/io/testing/scripted_gcs.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"

namespace penstock::io {
namespace {

constexpr char kObjects[] = "/storage/v1/b/bucket/o";

std::string PercentDecode(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Returns no value if it is not a request for an object.
std::optional<ScriptedGcs::Request> Parse(absl::string_view text) {
  ScriptedGcs::Request request;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, "\r\n");
  const std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || words[0] != "GET") return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> path_query =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  absl::string_view path = path_query.first;
  if (!absl::ConsumePrefix(&path, kObjects)) return std::nullopt;
  request.is_list = !absl::ConsumePrefix(&path, "/");
  if (!request.is_list) request.object = PercentDecode(path);
  for (absl::string_view parameter : absl::StrSplit(path_query.second, '&')) {
    if (parameter == "alt=media") request.is_media = true;
    if (parameter == "delimiter=%2F") request.one_level = true;
    if (request.is_list && absl::ConsumePrefix(&parameter, "prefix=")) {
      request.object = PercentDecode(parameter);
    }
    if (absl::ConsumePrefix(&parameter, "generation=")) {
      (void)absl::SimpleAtoi(parameter, &request.generation);
    }
  }
  for (absl::string_view line : lines) {
    if (absl::ConsumePrefix(&line, "Range: bytes=")) {
      const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(line, '-');
      (void)absl::SimpleAtoi(range.first, &request.begin);
      (void)absl::SimpleAtoi(range.second, &request.end);
      ++request.end;
    }
    if (absl::ConsumePrefix(&line, "Authorization: ")) request.authorization = std::string(line);
  }
  return request;
}

std::string Head(absl::string_view status, int64_t length, absl::string_view lines = "") {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Length: ", length, "\r\n", lines, "\r\n");
}

std::string ErrorBody(int code, absl::string_view message) {
  return absl::StrCat(R"({"error": {"code": )", code, R"(, "message": ")", message, R"("}})");
}

}  // namespace

ScriptedGcs::ScriptedGcs(int max_connections)
    : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      threads_(max_connections + 1, "scripted-gcs") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  PENSTOCK_CHECK(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  PENSTOCK_CHECK(::listen(listening_.get(), 128) == 0);
  PENSTOCK_CHECK(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) ==
                 0);
  port_ = ntohs(address.sin_port);
  threads_.Schedule([this] { Accept(); });
}

ScriptedGcs::~ScriptedGcs() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  ::shutdown(listening_.get(), SHUT_RDWR);  // wakes accept
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
}

ScriptedGcs::Fault ScriptedGcs::RandomFault(const Request& request) {
  base::Random random(base::MixSeeds(7, request.number));
  const auto cut = static_cast<int64_t>(random.Below(1 << 20));
  switch (random.Below(8)) {
    case 0:
      return {.status = 503};
    case 1:
      return {.cut_after = cut};
    case 2:
      return {.cut_after = cut, .understates_length = true};
    case 3:
      return {.cut_after = cut, .then = Fault::kHang};
    default:
      return {};
  }
}

void ScriptedGcs::Put(const std::string& object, std::string bytes) {
  std::lock_guard lock(mutex_);
  objects_[object] = {++generation_, std::make_shared<const std::string>(std::move(bytes))};
}

void ScriptedGcs::Remove(const std::string& object) {
  std::lock_guard lock(mutex_);
  objects_.erase(object);
}

void ScriptedGcs::IgnoreGenerations() {
  std::lock_guard lock(mutex_);
  checks_generations_ = false;
}

void ScriptedGcs::SetScript(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void ScriptedGcs::HoldUntil(int requests) {
  std::lock_guard lock(mutex_);
  hold_until_ = requests;
}

std::string ScriptedGcs::Uri(absl::string_view object, absl::string_view options) const {
  return absl::StrCat("gs://anonymous@bucket/", object,
                      "?scheme=http&endpoint_override=127.0.0.1:", port_, options);
}

std::vector<ScriptedGcs::Request> ScriptedGcs::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

int ScriptedGcs::max_in_flight() const {
  std::lock_guard lock(mutex_);
  return max_in_flight_;
}

void ScriptedGcs::Accept() {
  while (true) {
    auto client = std::make_shared<FileDescriptor>(
        ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (!client->valid()) continue;
    ++connections_;
    open_.push_back(client->get());
    threads_.Schedule([this, client] { Serve(std::move(*client)); });
  }
}

void ScriptedGcs::Serve(FileDescriptor client) {
  std::string text;
  char part[16384];
  bool goes_on = true;
  while (goes_on) {
    const size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) {
      const ssize_t n = ::recv(client.get(), part, sizeof(part), 0);
      if (n <= 0) break;
      text.append(part, n);
      continue;
    }
    std::optional<Request> request = Parse(text.substr(0, end));
    text.erase(0, end + 4);
    goes_on = request.has_value() ? Respond(client.get(), *std::move(request))
                                  : Send(client.get(), Head("404 Not Found", 0));
  }
  std::lock_guard lock(mutex_);
  std::erase(open_, client.get());
}

void ScriptedGcs::Hold() {
  std::unique_lock lock(mutex_);
  max_in_flight_ = std::max(max_in_flight_, ++held_);
  if (held_ >= hold_until_) {
    hold_until_ = 0;
    ++released_;
    changed_.notify_all();
  } else {
    const int released = released_;
    // Waits as long as new requests arrive, so that a lower number than expected cannot block
    // forever.
    int seen = 0;
    while (released == released_ && !stopping_ && seen != static_cast<int>(requests_.size())) {
      seen = requests_.size();
      changed_.wait_for(lock, std::chrono::seconds(1),
                        [&] { return released != released_ || stopping_; });
    }
  }
  --held_;
}

bool ScriptedGcs::Respond(int fd, Request request) {
  Script script;
  std::optional<Object> object;
  {
    std::lock_guard lock(mutex_);
    request.number = requests_.size();
    requests_.push_back(request);
    script = script_;
    const auto it = objects_.find(request.object);
    if (it != objects_.end() && (request.generation == 0 || !checks_generations_ ||
                                 request.generation == it->second.generation)) {
      object = it->second;
    }
  }
  if (request.is_media && request.generation != 0) Hold();
  const Fault fault = script != nullptr ? script(request) : Fault{};
  if (fault.cut_after == 0 && fault.then == Fault::kHang) {
    Hang(fd, "");
    return false;
  }
  if (!fault.raw.empty()) {
    Send(fd, fault.raw);
    return false;
  }
  if (fault.endless) {
    Send(fd, absl::StrCat("HTTP/1.1 ", fault.status == 0 ? 200 : fault.status,
                          " Scripted\r\nX-Goog-Generation: 1\r\n\r\n"));
    while (Send(fd, fault.page)) {
    }
    return false;
  }
  if (fault.status != 0) {
    const std::string body =
        fault.page.empty() ? ErrorBody(fault.status, "as the script says") : fault.page;
    return Send(
        fd, absl::StrCat(Head(absl::StrCat(fault.status, " Scripted"), body.size(), fault.header),
                         body));
  }
  if (!fault.page.empty()) {
    return Send(fd, absl::StrCat(Head("200 OK", fault.page.size()), fault.page));
  }
  if (request.is_list) {
    const std::string body = Listing(request);
    return Send(fd, absl::StrCat(Head("200 OK", body.size()), body));
  }
  if (!object) {
    const std::string body = ErrorBody(404, "No such object: bucket/" + request.object);
    return Send(fd, absl::StrCat(Head("404 Not Found", body.size()), body));
  }
  const int64_t size = object->bytes->size();
  if (!request.is_media) {
    const std::string body =
        absl::StrCat(R"({"size": ")", size, R"(", "generation": ")", object->generation, R"("})");
    return Send(fd, absl::StrCat(Head("200 OK", body.size()), body));
  }
  const std::string generation = absl::StrCat("X-Goog-Generation: ", object->generation, "\r\n");
  if (request.begin >= size) return Send(fd, Head("416 Range Not Satisfiable", 0, generation));
  absl::string_view body =
      absl::string_view(*object->bytes).substr(request.begin, request.end - request.begin);
  const std::string range = absl::StrCat(generation, "Content-Range: bytes ", request.begin, "-",
                                         request.begin + body.size() - 1, "/", size, "\r\n");
  const bool cut = fault.cut_after >= 0 && fault.cut_after < static_cast<int64_t>(body.size());
  const absl::string_view sent = cut ? body.substr(0, fault.cut_after) : body;
  if (!Send(fd, absl::StrCat(Head("206 Partial Content",
                                  fault.understates_length ? sent.size()
                                                           : body.size() + fault.overstates_length,
                                  range),
                             sent))) {
    return false;
  }
  if (fault.overstates_length) return false;
  if (!cut || fault.understates_length) return true;
  if (fault.then != Fault::kClose) {
    Hang(fd, fault.then == Fault::kTrickle ? body.substr(sent.size()) : "");
  }
  return false;
}

std::string ScriptedGcs::Listing(const Request& request) {
  std::lock_guard lock(mutex_);
  std::string items;
  std::set<std::string> folders;
  for (const auto& [name, object] : objects_) {
    if (!absl::StartsWith(name, request.object)) continue;
    const size_t slash = name.find('/', request.object.size());
    if (request.one_level && slash != std::string::npos) {
      folders.insert(absl::StrCat("\"", name.substr(0, slash + 1), "\""));
      continue;
    }
    absl::StrAppend(&items, items.empty() ? "" : ", ", R"({"name": ")", name, R"(", "size": ")",
                    object.bytes->size(), R"(", "generation": ")", object.generation, R"("})");
  }
  return absl::StrCat(R"({"kind": "storage#objects", "items": [)", items, R"(], "prefixes": [)",
                      absl::StrJoin(folders, ", "), "]}");
}

void ScriptedGcs::Hang(int fd, absl::string_view trickle) {
  ++hung_;
  pollfd leaving{fd, POLLIN, 0};
  while (::poll(&leaving, 1, trickle.empty() ? -1 : 1) == 0) {
    if (!Send(fd, trickle.substr(0, 1))) return;
    trickle.remove_prefix(1);
  }
}

bool ScriptedGcs::Send(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(n);
  }
  return true;
}

}  // namespace penstock::io
