# Flags of our own builds, of the sanitized ones among them. Included only if Penstock is the top project: nothing here
# reaches a program that links it.

# Line tables cost little and give a usable stack in a core dump or a profile.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# Optimized lightly: sanitized tests at -O0 take three times as long.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")

add_compile_options(-Wall -Wextra -Werror)

# Tests are compiled more often than run. (What they test is optimized.)
add_library(penstock_test_options INTERFACE)
target_compile_options(penstock_test_options INTERFACE -O0 $<$<CONFIG:Release>:-g0>)

# A hundred test programs are linked for each preset: in a quarter of the time with lld.
find_program(PENSTOCK_LLD ld.lld)
mark_as_advanced(PENSTOCK_LLD)
if(PENSTOCK_LLD)
  add_link_options(-fuse-ld=lld)
endif()
# Most of a test program's 90 MB would be line tables of libraries. (Sanitizers print them.)
if(NOT PENSTOCK_SANITIZE)
  target_link_options(penstock_test_options INTERFACE $<$<CONFIG:Release>:LINKER:--strip-debug>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC starts to collect its garbage at 128 MB: a tenth of its time where several files are compiled as one.
  add_compile_options(--param=ggc-min-heapsize=1048576)
  target_compile_options(penstock_test_options INTERFACE -fpch-preprocess)  # ccache asks for it
endif()

if(PENSTOCK_SANITIZE STREQUAL "address")
  # A null pointer that is used ends the program without a check of its own, and sizes of objects are AddressSanitizer's
  # own affair: both checks only make compiling a quarter longer.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(PENSTOCK_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(PENSTOCK_SANITIZE)
  message(FATAL_ERROR "PENSTOCK_SANITIZE is '${PENSTOCK_SANITIZE}'; it takes address or thread")
endif()

if(PENSTOCK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "fuzz targets need clang++ (use: cmake --preset asan)")
  endif()
  # Of rooms, not of their tests.
  add_library(penstock_fuzz_options INTERFACE)
  target_compile_options(penstock_fuzz_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
