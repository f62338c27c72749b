// The HDF5 library, which writes files: its identifiers, one thread at a time, its error messages,
// types of elements, and files in memory of our own. Internal to hdf5_writer.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include <hdf5.h>

namespace penstock::save::hdf5 {

// An identifier of the library, closed at the end of its scope.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Id& operator=(Id&&) = delete;
  ~Id() { Close(); }
  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  bool Close() { return id_ < 0 || close_(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// Calls of the library are made while there is a session, one at a time in the process: the library
// has one state. It prints no errors meanwhile, and never loads plugins.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// The innermost message of the library's error stack.
std::string LibraryMessage();

// The bytes of a file, for the library. The functions return false if they fail.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual uint64_t size() const = 0;
  // A range in the file.
  virtual bool Read(uint64_t offset, absl::Span<char> out) = 0;
  virtual bool Write(uint64_t offset, absl::string_view bytes) = 0;
  // `end`: of the space that the library allocated.
  virtual void WhenClosed(uint64_t end) { (void)end; }
};

// Properties with which H5Fcreate uses `bytes`, which must outlive the file.
Id PropertiesOf(Bytes& bytes);

// h5py's float16, little-endian, and its bool.
Id HalfType();
Id BooleanType();

}  // namespace penstock::save::hdf5
