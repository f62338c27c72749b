# What a build of Penstock needs from elsewhere: Debian's libraries (third_party/apt.txt), and parts of wheels
# (third_party/wheels.txt) that tools/setup unpacks. third_party/README.md says what each is for.

set(PENSTOCK_UNPACKED ${PROJECT_SOURCE_DIR}/third_party/unpacked CACHE PATH "where tools/setup unpacks wheels")
set(setup "${PROJECT_SOURCE_DIR}/tools/setup")
if(NOT EXISTS ${PENSTOCK_UNPACKED}/pyarrow/libarrow.so.2600
   OR NOT EXISTS ${PENSTOCK_UNPACKED}/jaxlib/include/xla/ffi/api/ffi.h)
  message(FATAL_ERROR "${PENSTOCK_UNPACKED} is missing or old. Run: ${setup}    (or give a folder in which that was "
    "done: -DPENSTOCK_UNPACKED=DIR)")
endif()

macro(penstock_find_library)
  find_package(${ARGV} REQUIRED)
endmacro()
set(PENSTOCK_ARROW ${PENSTOCK_UNPACKED}/pyarrow/libarrow.so.2600)
include(${CMAKE_CURRENT_LIST_DIR}/Libraries.cmake)
if(PENSTOCK_TCMALLOC AND NOT PENSTOCK_SANITIZE AND NOT TARGET penstock::tcmalloc)
  message(FATAL_ERROR "tcmalloc is missing. Run: ${setup}    (or leave it out: -DPENSTOCK_TCMALLOC=OFF)")
endif()
if(PENSTOCK_PROGRAM)
  find_package(CLI11 REQUIRED)
  find_package(yaml-cpp REQUIRED)
endif()
if(PENSTOCK_TESTS)
  find_package(GTest REQUIRED)
endif()

# Headers that only .cc files include, so that no program that links Penstock needs them.
#
# Arrow's, from the wheel of its library. They are heavy: only room io includes them.
add_library(penstock_arrow_headers INTERFACE)
target_include_directories(penstock_arrow_headers SYSTEM INTERFACE ${PENSTOCK_UNPACKED}/pyarrow/include)
# The PJRT C API's, from the wheel that also carries the CPU plugin.
add_library(penstock_pjrt_header INTERFACE)
target_include_directories(penstock_pjrt_header SYSTEM INTERFACE ${PENSTOCK_UNPACKED}/pjrt_cpu/include)
# Those of XLA's foreign function interface, from the wheel jaxlib, no newer than the CPU plugin: a plugin refuses handlers
# of an FFI version that it does not know.
add_library(penstock_xla_ffi INTERFACE)
target_include_directories(penstock_xla_ffi SYSTEM INTERFACE ${PENSTOCK_UNPACKED}/jaxlib/include)

# What is found at run time lies beside libpenstock_folder.so (room runtime): in lib/penstock of the build folder, and of
# an installed Penstock.
set(PENSTOCK_LIBRARY_FOLDER ${PROJECT_BINARY_DIR}/lib/penstock)
file(MAKE_DIRECTORY ${PENSTOCK_LIBRARY_FOLDER})
foreach(plugin IN ITEMS pjrt_cpu/xla_cpu_pjrt.so libtpu/libtpu.so)
  get_filename_component(name ${plugin} NAME)
  file(CREATE_LINK ${PENSTOCK_UNPACKED}/${plugin} ${PENSTOCK_LIBRARY_FOLDER}/${name} SYMBOLIC)
endforeach()
