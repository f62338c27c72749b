// Objects of an HDF5 file (groups and datasets) by their addresses: messages of their headers,
// members of groups, strings in heaps. Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/save/hdf5/hdf5_bytes.h"
#include "penstock/save/hdf5/hdf5_messages.h"

namespace penstock::save::hdf5 {

struct Object {
  std::vector<Message> messages = {};

  const Message* Find(int type) const;  // the first of that type, or nullptr
  bool IsGroup() const { return Find(kSymbolTable) != nullptr || Find(kLinkInfo) != nullptr; }
  bool IsDataset() const { return Find(kLayout) != nullptr; }
};

// Member of a group.
struct Member {
  std::string name;
  uint64_t address = kUndefined;  // kUndefined: a soft or external link
};

// Reads each object, group and heap once, and keeps it.
class Objects {
 public:
  explicit Objects(Source& source) : source_(source) {}

  absl::StatusOr<const Object*> Get(uint64_t address);
  // Members of the group at the address, by name.
  absl::StatusOr<const std::map<std::string, Member>*> Members(uint64_t address);
  // The bytes of an object in a global heap. Valid as long as this.
  absl::StatusOr<absl::string_view> HeapObject(uint64_t heap, uint64_t index);

 private:
  using Group = std::map<std::string, Member>;

  absl::StatusOr<Object> ReadObject(uint64_t address);
  absl::Status ReadMessages1(Cursor cursor, Object& object);
  absl::Status ReadMessages2(Cursor cursor, uint64_t flags, Object& object);
  absl::Status ReadGroup(const Object& object, Group& group);
  absl::Status ReadNode(uint64_t address, int level, const std::string& names, Group& group);
  absl::Status ReadSymbols(uint64_t address, const std::string& names, Group& group);
  static absl::Status AddMember(Member member, uint64_t offset, Group& group);

  struct Heap {
    std::string bytes = {};
    absl::flat_hash_map<uint64_t, std::pair<size_t, size_t>> objects = {};  // place and size
  };
  absl::StatusOr<Heap> ReadHeap(uint64_t address);

  Source& source_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Object>> objects_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Group>> groups_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Heap>> heaps_;
};

// The level of a root is not known before it is read.
inline constexpr int kAnyLevel = -1;

// The beginning of a node of a version 1 B-tree: its level and the number of its children. `type`:
// 0 of groups, 1 of chunks. `level`: which it must have.
struct NodeHead {
  int level = 0;
  uint64_t children = 0;
  std::string body = {};  // keys and children, and the last key
  uint64_t offset = 0;    // of the body
};
absl::StatusOr<NodeHead> ReadNodeHead(Source& source, uint64_t address, int type, int level,
                                      uint64_t key_bytes);

}  // namespace penstock::save::hdf5
