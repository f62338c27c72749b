# Libraries from Debian (third_party/apt.txt) and from unpacked wheels (third_party/wheels.txt).
# tools/setup installs both.

find_package(absl REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(CURL 7.68 REQUIRED)  # curl_multi_poll and curl_multi_wakeup
find_package(OpenSSL 3 REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
find_package(CLI11 REQUIRED)

find_package(GTest REQUIRED)

set(PENSTOCK_UNPACKED ${CMAKE_SOURCE_DIR}/third_party/unpacked)
if(NOT EXISTS ${PENSTOCK_UNPACKED}/pyarrow/libarrow.so.2600
   OR NOT EXISTS ${PENSTOCK_UNPACKED}/jaxlib/include/xla/ffi/api/ffi.h)
  message(FATAL_ERROR "third_party/unpacked is missing or old. Run: tools/setup")
endif()

# Arrow C++, from the pyarrow wheel. Its headers are heavy: only .cc files of room io include them.
add_library(penstock_arrow SHARED IMPORTED)
set_target_properties(penstock_arrow PROPERTIES
  IMPORTED_LOCATION ${PENSTOCK_UNPACKED}/pyarrow/libarrow.so.2600
  INTERFACE_INCLUDE_DIRECTORIES "${PENSTOCK_UNPACKED}/pyarrow/include")

# The PJRT C API header, from the wheel that also carries the CPU plugin.
add_library(penstock_pjrt_header INTERFACE)
target_include_directories(penstock_pjrt_header SYSTEM INTERFACE ${PENSTOCK_UNPACKED}/pjrt_cpu/include)

# The C++ headers of XLA's foreign function interface, from the wheel jaxlib. Headers only, and no newer than the CPU
# plugin: a plugin refuses handlers of an FFI version that it does not know.
add_library(penstock_xla_ffi INTERFACE)
target_include_directories(penstock_xla_ffi SYSTEM INTERFACE ${PENSTOCK_UNPACKED}/jaxlib/include)

# oneDNN, and the OpenMP runtime that Debian builds it with (room kernels tells it to start no threads).
find_library(PENSTOCK_DNNL dnnl REQUIRED)
add_library(penstock_dnnl INTERFACE)
target_link_libraries(penstock_dnnl INTERFACE ${PENSTOCK_DNNL} gomp)

# tcmalloc, for programs that link room runtime. A CPU device takes the memory of each execution from malloc; glibc's
# gives large pieces back to the system at once and gets them anew, page by page, each of which the system clears: up to a
# third of a training step. Nothing refers to it by name, hence --no-as-needed.
add_library(penstock_malloc INTERFACE)
if(PENSTOCK_TCMALLOC AND NOT PENSTOCK_SANITIZE)
  find_library(PENSTOCK_TCMALLOC_MINIMAL NAMES tcmalloc_minimal libtcmalloc_minimal.so.4 REQUIRED)
  target_link_libraries(penstock_malloc INTERFACE
    -Wl,--push-state,--no-as-needed ${PENSTOCK_TCMALLOC_MINIMAL} -Wl,--pop-state)
endif()
