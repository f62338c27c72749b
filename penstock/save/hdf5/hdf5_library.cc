#include "penstock/save/hdf5/hdf5_library.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace penstock::save::hdf5 {
namespace {

std::mutex& LibraryMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Passed to the driver with the properties of a file.
struct DriverInfo {
  Bytes* bytes;
};

// A file of the driver.
struct OpenFile {
  H5FD_t base = {};  // first: the library knows this part only
  Bytes* bytes = nullptr;
  haddr_t eoa = 0;
};

OpenFile* Of(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* Of(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

H5FD_t* DriverOpen(const char*, unsigned, hid_t properties, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(properties));
  if (info == nullptr) return nullptr;
  auto* file = new OpenFile;
  file->bytes = info->bytes;
  return &file->base;
}

herr_t DriverClose(H5FD_t* file) {
  Of(file)->bytes->WhenClosed(Of(file)->eoa);
  delete Of(file);
  return 0;
}

int DriverCompare(const H5FD_t* a, const H5FD_t* b) {
  return a == b ? 0 : std::less<const H5FD_t*>()(a, b) ? -1 : 1;
}

herr_t DriverQuery(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t DriverEoa(const H5FD_t* file, H5FD_mem_t) { return Of(file)->eoa; }

herr_t DriverSetEoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  Of(file)->eoa = address;
  return 0;
}

haddr_t DriverEof(const H5FD_t* file, H5FD_mem_t) { return Of(file)->bytes->size(); }

herr_t DriverRead(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* out) {
  Bytes& bytes = *Of(base)->bytes;
  if (address > bytes.size() || size > bytes.size() - address) return -1;
  return bytes.Read(address, {static_cast<char*>(out), size}) ? 0 : -1;
}

herr_t DriverWrite(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* in) {
  return Of(base)->bytes->Write(address, {static_cast<const char*>(in), size}) ? 0 : -1;
}

// The driver's identifier; negative if the library rejects it.
hid_t Driver() {
  static const H5FD_class_t kClass = [] {
    H5FD_class_t driver = {};
    driver.name = "penstock";
    driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(DriverInfo);
    driver.open = DriverOpen;
    driver.close = DriverClose;
    driver.cmp = DriverCompare;
    driver.query = DriverQuery;
    driver.get_eoa = DriverEoa;
    driver.set_eoa = DriverSetEoa;
    driver.get_eof = DriverEof;
    driver.read = DriverRead;
    driver.write = DriverWrite;
    constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kMap), std::end(kMap), driver.fl_map);
    return driver;
  }();
  static const hid_t id = H5FDregister(&kClass);
  return id;
}

}  // namespace

Session::Session() : lock_(LibraryMutex()) {
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

Session::~Session() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

std::string LibraryMessage() {
  std::string message;
  const auto visit = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    auto& text = *static_cast<std::string*>(out);
    if (error->desc != nullptr && text.empty()) text = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &message);
  return message.empty() ? "unknown error" : message;
}

Id PropertiesOf(Bytes& bytes) {
  Id properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const DriverInfo info{.bytes = &bytes};
  if (Driver() < 0 || !properties.ok() || H5Pset_driver(properties.get(), Driver(), &info) < 0 ||
      H5Pset_fclose_degree(properties.get(), H5F_CLOSE_STRONG) < 0) {
    return Id(H5I_INVALID_HID, H5Pclose);
  }
  return properties;
}

Id HalfType() {
  Id type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  if (H5Tset_fields(type.get(), 15, 10, 5, 0, 10) < 0 || H5Tset_size(type.get(), 2) < 0 ||
      H5Tset_ebias(type.get(), 15) < 0) {
    return Id(H5I_INVALID_HID, H5Tclose);
  }
  return type;
}

Id BooleanType() {
  Id type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  for (const signed char value : {0, 1}) {
    if (H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value) < 0) {
      return Id(H5I_INVALID_HID, H5Tclose);
    }
  }
  return type;
}

}  // namespace penstock::save::hdf5
