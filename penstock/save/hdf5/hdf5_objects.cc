#include "penstock/save/hdf5/hdf5_objects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/save/quoted.h"

namespace penstock::save::hdf5 {
namespace {

constexpr uint64_t kMaxMessages = 1 << 16;  // of an object
constexpr uint64_t kMaxBlock = 64 << 20;    // bytes of a header or a heap
constexpr int kMaxLevel = 64;               // of a B-tree
constexpr size_t kMaxName = 1 << 16;        // bytes of a member's name

absl::Status AddMessage(Message message, Object& object) {
  if (object.messages.size() == kMaxMessages) {
    return Corrupt(message.offset, "an object has too many messages");
  }
  object.messages.push_back(std::move(message));
  return absl::OkStatus();
}

absl::Status CheckSize(uint64_t offset, uint64_t bytes, absl::string_view what) {
  if (bytes <= kMaxBlock) return absl::OkStatus();
  return Corrupt(offset, absl::StrCat(what, " has ", bytes, " bytes; the maximum is ", kMaxBlock));
}

}  // namespace

const Message* Object::Find(int type) const {
  const auto found = std::find_if(messages.begin(), messages.end(),
                                  [&](const Message& message) { return message.type == type; });
  return found == messages.end() ? nullptr : &*found;
}

absl::StatusOr<const Object*> Objects::Get(uint64_t address) {
  std::unique_ptr<Object>& object = objects_[address];
  if (object == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(Object read, ReadObject(address));
    object = std::make_unique<Object>(std::move(read));
  }
  return object.get();
}

absl::StatusOr<Object> Objects::ReadObject(uint64_t address) {
  constexpr uint64_t kPrefix = 16;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prefix,
                            source_.Block(address, kPrefix, "an object header"));
  Cursor cursor(prefix, address);
  Object object;
  uint64_t at = address, bytes = 0, flags = 0;
  const bool is_new = absl::StartsWith(prefix, "OHDR");
  if (is_new) {
    cursor.Take(4);
    const uint64_t version = cursor.Number(1);
    flags = cursor.Number(1);
    if (version != 2) {
      return Corrupt(address, absl::StrCat("an object header has version ", version));
    }
    const uint64_t times = (flags & 0x20) != 0 ? 16 : 0, limits = (flags & 0x10) != 0 ? 4 : 0;
    const uint64_t width = uint64_t{1} << (flags & 3), before = 6 + times + limits;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string size,
                              source_.Block(address + before, width, "an object header"));
    bytes = Cursor(size, address).Number(width);
    at = address + before + width;
  } else {
    const uint64_t version = cursor.Number(1);
    cursor.Number(1);
    cursor.Number(2 + 4);  // numbers of messages and of references
    bytes = cursor.Number(4);
    if (version != 1) return Corrupt(address, "there is no object header");
    at = address + kPrefix;
  }
  // The first block, then those that messages name. A block that names itself ends at the limit of
  // messages, or at that of the file's metadata.
  size_t next = 0;
  for (;;) {
    PENSTOCK_RETURN_IF_ERROR(CheckSize(at, bytes, "an object header"));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string block,
                              source_.Block(at, bytes, "an object header"));
    PENSTOCK_RETURN_IF_ERROR(is_new ? ReadMessages2(Cursor(block, at), flags, object)
                                    : ReadMessages1(Cursor(block, at), object));
    while (next < object.messages.size() && object.messages[next].type != kContinuation) ++next;
    if (next == object.messages.size()) return object;
    const Message& message = object.messages[next++];
    Cursor place(message.body, message.offset);
    at = place.Number(8);
    bytes = place.Number(8);
    if (!place.ok()) return Corrupt(message.offset, "an object header is malformed");
    if (!is_new) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string signature,
                              source_.Block(at, 4, "an object header"));
    if (signature != "OCHK" || bytes < 8) return Corrupt(at, "an object header is malformed");
    at += 4;
    bytes -= 8;  // signature and checksum
  }
}

absl::Status Objects::ReadMessages1(Cursor cursor, Object& object) {
  while (cursor.left() >= 8) {
    Message message{.type = static_cast<int>(cursor.Number(2))};
    const uint64_t size = cursor.Number(2), flags = cursor.Number(1);
    cursor.Number(3);
    message.is_shared = (flags & 2) != 0;
    message.offset = cursor.offset();
    message.body = std::string(cursor.Take(size));
    if (!cursor.ok()) return Corrupt(message.offset, "a message of an object is cut short");
    PENSTOCK_RETURN_IF_ERROR(AddMessage(std::move(message), object));
  }
  return absl::OkStatus();
}

absl::Status Objects::ReadMessages2(Cursor cursor, uint64_t flags, Object& object) {
  const size_t head = (flags & 4) != 0 ? 6 : 4;
  while (cursor.left() >= head) {  // fewer bytes are a gap
    Message message{.type = static_cast<int>(cursor.Number(1))};
    const uint64_t size = cursor.Number(2), message_flags = cursor.Number(1);
    if (head == 6) cursor.Number(2);  // order of creation
    message.is_shared = (message_flags & 2) != 0;
    message.offset = cursor.offset();
    message.body = std::string(cursor.Take(size));
    if (!cursor.ok()) return Corrupt(message.offset, "a message of an object is cut short");
    PENSTOCK_RETURN_IF_ERROR(AddMessage(std::move(message), object));
  }
  return absl::OkStatus();
}

absl::StatusOr<const std::map<std::string, Member>*> Objects::Members(uint64_t address) {
  PENSTOCK_ASSIGN_OR_RETURN(const Object* object, Get(address));
  std::unique_ptr<Group>& group = groups_[address];
  if (group == nullptr) {
    auto read = std::make_unique<Group>();
    PENSTOCK_RETURN_IF_ERROR(ReadGroup(*object, *read));
    group = std::move(read);
  }
  return group.get();
}

absl::Status Objects::AddMember(Member member, uint64_t offset, Group& group) {
  const std::string name = member.name;
  if (name.empty() || name.find('\0') != std::string::npos || name.find('/') != std::string::npos) {
    return Corrupt(offset, absl::StrCat("a member of a group has the name ", Quoted(name)));
  }
  if (!group.emplace(name, std::move(member)).second) {
    return Corrupt(offset, absl::StrCat("a group has two members of the name ", Quoted(name)));
  }
  return absl::OkStatus();
}

absl::Status Objects::ReadGroup(const Object& object, Group& group) {
  for (const Message& message : object.messages) {
    Cursor cursor(message.body, message.offset);
    if (message.type == kSymbolTable) {
      const uint64_t tree = cursor.Number(8), heap = cursor.Number(8);
      if (!cursor.ok()) return Corrupt(message.offset, "a group is malformed");
      // The names of members.
      PENSTOCK_ASSIGN_OR_RETURN(const std::string head, source_.Block(heap, 32, "a heap"));
      Cursor fields(head, heap);
      const bool is_heap = fields.Is("HEAP");
      fields.Number(4);  // version
      const uint64_t bytes = fields.Number(8);
      fields.Number(8);
      const uint64_t place = fields.Number(8);
      if (!is_heap) return Corrupt(heap, "there is no local heap");
      PENSTOCK_RETURN_IF_ERROR(CheckSize(heap, bytes, "a local heap"));
      PENSTOCK_ASSIGN_OR_RETURN(const std::string names, source_.Block(place, bytes, "a heap"));
      PENSTOCK_RETURN_IF_ERROR(ReadNode(tree, kAnyLevel, names, group));
    } else if (message.type == kLinkInfo) {
      cursor.Number(1);
      if ((cursor.Number(1) & 1) != 0) cursor.Number(8);  // maximum order of creation
      if (cursor.Number(8) != kUndefined) {
        return absl::UnimplementedError(
            absl::StrCat("offset ", message.offset,
                         ": has a group of the layout of HDF5 1.8 and later (libver='latest', or "
                         "track_order) with many members, which is not supported"));
      }
    } else if (message.type == kLink) {
      cursor.Number(1);
      const uint64_t flags = cursor.Number(1);
      const uint64_t kind = (flags & 8) != 0 ? cursor.Number(1) : 0;
      if ((flags & 4) != 0) cursor.Number(8);  // order of creation
      if ((flags & 16) != 0) cursor.Number(1);
      const uint64_t length = cursor.Number(size_t{1} << (flags & 3));
      Member member{.name = std::string(cursor.Take(length))};
      if (kind == 0) member.address = cursor.Number(8);
      if (!cursor.ok()) return Corrupt(message.offset, "a link is malformed");
      PENSTOCK_RETURN_IF_ERROR(AddMember(std::move(member), message.offset, group));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeHead> ReadNodeHead(Source& source, uint64_t address, int type, int level,
                                      uint64_t key_bytes) {
  constexpr uint64_t kHead = 24;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string head, source.Block(address, kHead, "a B-tree"));
  Cursor cursor(head, address);
  const bool is_node = cursor.Is("TREE");
  const int found_type = static_cast<int>(cursor.Number(1));
  NodeHead node{.level = static_cast<int>(cursor.Number(1)), .children = cursor.Number(2)};
  if (!is_node || found_type != type) return Corrupt(address, "there is no node of a B-tree");
  if (node.level > kMaxLevel || (level != kAnyLevel && node.level != level)) {
    return Corrupt(address, absl::StrCat("a node of a B-tree has level ", node.level));
  }
  node.offset = address + kHead;
  PENSTOCK_ASSIGN_OR_RETURN(
      node.body,
      source.Block(node.offset, node.children * (key_bytes + 8) + key_bytes, "a B-tree"));
  return node;
}

absl::Status Objects::ReadNode(uint64_t address, int level, const std::string& names,
                               Group& group) {
  PENSTOCK_ASSIGN_OR_RETURN(const NodeHead node, ReadNodeHead(source_, address, 0, level, 8));
  Cursor cursor(node.body, node.offset);
  for (uint64_t i = 0; i < node.children; ++i) {
    cursor.Number(8);
    const uint64_t child = cursor.Number(8);
    PENSTOCK_RETURN_IF_ERROR(node.level == 0 ? ReadSymbols(child, names, group)
                                             : ReadNode(child, node.level - 1, names, group));
  }
  return absl::OkStatus();
}

absl::Status Objects::ReadSymbols(uint64_t address, const std::string& names, Group& group) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string head, source_.Block(address, 8, "a group"));
  Cursor fields(head, address);
  if (!fields.Is("SNOD")) return Corrupt(address, "there is no list of members");
  fields.Number(2);
  const uint64_t count = fields.Number(2);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string body,
                            source_.Block(address + 8, 40 * count, "a group"));
  Cursor cursor(body, address + 8);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = cursor.offset(), name = cursor.Number(8);
    Member member{.name = {}, .address = cursor.Number(8)};
    if (cursor.Number(4) == 2) member.address = kUndefined;  // a soft link
    cursor.Take(4 + 16);
    const size_t end = name < names.size() ? names.find('\0', name) : std::string::npos;
    if (end == std::string::npos || end - name > kMaxName) {
      return Corrupt(offset, "a member of a group has no name");
    }
    PENSTOCK_RETURN_IF_ERROR(source_.Charge(offset, end - name));
    member.name = names.substr(name, end - name);
    PENSTOCK_RETURN_IF_ERROR(AddMember(std::move(member), offset, group));
  }
  return absl::OkStatus();
}

absl::StatusOr<Objects::Heap> Objects::ReadHeap(uint64_t address) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string head, source_.Block(address, 16, "a heap"));
  Cursor fields(head, address);
  const bool is_heap = fields.Is("GCOL");
  fields.Number(4);  // version
  const uint64_t bytes = fields.Number(8);
  if (!is_heap || bytes < 16) return Corrupt(address, "there is no global heap");
  PENSTOCK_RETURN_IF_ERROR(CheckSize(address, bytes, "a global heap"));
  Heap heap;
  PENSTOCK_ASSIGN_OR_RETURN(heap.bytes, source_.Block(address + 16, bytes - 16, "a heap"));
  Cursor cursor(heap.bytes, address + 16);
  while (cursor.left() >= 16) {
    const uint64_t index = cursor.Number(2);
    cursor.Number(2 + 4);  // number of references
    const uint64_t size = cursor.Number(8);
    if (index == 0) break;  // free space
    const size_t place = heap.bytes.size() - cursor.left();
    if (size > cursor.left())
      return Corrupt(cursor.offset(), "a string is beyond the end of its heap");
    heap.objects.emplace(index, std::pair(place, static_cast<size_t>(size)));
    cursor.Take(std::min<uint64_t>((size + 7) / 8 * 8, cursor.left()));
  }
  return heap;
}

absl::StatusOr<absl::string_view> Objects::HeapObject(uint64_t address, uint64_t index) {
  std::unique_ptr<Heap>& heap = heaps_[address];
  if (heap == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(Heap read, ReadHeap(address));
    heap = std::make_unique<Heap>(std::move(read));
  }
  const auto found = heap->objects.find(index);
  if (found == heap->objects.end()) {
    return Corrupt(address, absl::StrCat("a heap has no object ", index));
  }
  return absl::string_view(heap->bytes).substr(found->second.first, found->second.second);
}

}  // namespace penstock::save::hdf5
