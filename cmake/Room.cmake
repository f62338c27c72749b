# A room is one folder under penstock/ and one library. Its CMakeLists.txt is one call:
#
#   penstock_room(NAME record
#                 USES base io                 # rooms; only those listed before this one in PENSTOCK_ROOMS
#                 LIBRARIES ZLIB::ZLIB)        # third-party targets
#
# In a room that stands on many others, FUZZED names the sources that fuzz targets are about and FUZZED_USES the
# rooms that those use, so that a fuzzing build needs no more than these.
#
# Every .cc in the folder belongs to the library, except x_test.cc (a ctest entry of its own; all of a room are one
# program, <room>_tests), x_fuzz.cc (a libFuzzer program of its own, built by the preset asan) and x_main.cc (a
# program). Files in testing/ make the library penstock_<room>_testing, which only tests link.
#
# Files are compiled several at once, which halves the time (CMake's unity builds): what they declare in anonymous
# namespaces has names that are used once in the room. ALONE: not here; TESTS_APART: each x_test.cc is a program.
#
# SHARE_PROGRAMS: what its tests have XLA compile is kept in build/results/programs, so that the sanitized tests, which
# are not about XLA, need not wait for it once more. ./test begins with an empty folder.

# What most files of rooms include, parsed once: a third of their compile time. A file has to include what it uses
# all the same: the preset debug does without.
set(PENSTOCK_HEADERS
  <algorithm> <atomic> <condition_variable> <cstdint> <cstring> <deque> <functional> <map> <memory> <mutex> <optional>
  <string> <utility> <variant> <vector> <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/types/span.h>)
# GCC instantiates what a precompiled header's inline functions call in every file anew, for JSON half a second of
# it; clang once.
set(PENSTOCK_JSON_HEADER)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(PENSTOCK_JSON_HEADER <nlohmann/json.hpp>)
endif()
if(PENSTOCK_PRECOMPILE)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cc CONTENT "")
  add_library(penstock_headers STATIC ${CMAKE_BINARY_DIR}/headers.cc)
  target_link_libraries(penstock_headers
    PUBLIC penstock_compile_options absl::statusor absl::strings absl::str_format absl::inlined_vector
           absl::flat_hash_map Threads::Threads)
  if(PENSTOCK_FUZZ)
    target_link_libraries(penstock_headers PRIVATE penstock_fuzz_options)
  endif()
  target_precompile_headers(penstock_headers PRIVATE ${PENSTOCK_HEADERS} ${PENSTOCK_JSON_HEADER})
endif()

function(penstock_room)
  cmake_parse_arguments(ROOM "ALONE;TESTS_APART;SHARE_PROGRAMS" "NAME" "USES;LIBRARIES;TEST_LIBRARIES;FUZZED;FUZZED_USES" ${ARGN})
  list(FIND PENSTOCK_ROOMS ${ROOM_NAME} self)
  set(used)
  foreach(other IN LISTS ROOM_USES)
    list(FIND PENSTOCK_ROOMS ${other} index)
    if(index LESS 0 OR index GREATER_EQUAL self)
      message(FATAL_ERROR "room ${ROOM_NAME} may not use room ${other}: it does not stand above it")
    endif()
    list(APPEND used penstock_${other})
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|main)\\.cc$")

  add_library(penstock_${ROOM_NAME} STATIC ${sources})
  target_link_libraries(penstock_${ROOM_NAME}
    PUBLIC ${used} penstock_compile_options absl::status absl::statusor absl::strings
           absl::str_format absl::span absl::inlined_vector absl::flat_hash_map absl::flat_hash_set
           absl::function_ref Threads::Threads
    PRIVATE ${ROOM_LIBRARIES})
  if(PENSTOCK_PRECOMPILE)
    target_precompile_headers(penstock_${ROOM_NAME} REUSE_FROM penstock_headers)
  endif()
  if(NOT ROOM_ALONE)
    penstock_unity(penstock_${ROOM_NAME})
  endif()

  if(PENSTOCK_FUZZ)
    target_link_libraries(penstock_${ROOM_NAME} PRIVATE penstock_fuzz_options)
    set(fuzzed penstock_${ROOM_NAME})
    if(ROOM_FUZZED)
      set(fuzzed penstock_${ROOM_NAME}_fuzzed)
      add_library(${fuzzed} STATIC EXCLUDE_FROM_ALL ${ROOM_FUZZED})
      list(TRANSFORM ROOM_FUZZED_USES PREPEND penstock_)
      target_link_libraries(${fuzzed} PUBLIC ${ROOM_FUZZED_USES} PRIVATE ${ROOM_LIBRARIES} penstock_fuzz_options)
    endif()
    foreach(source IN LISTS fuzzers)
      get_filename_component(name ${source} NAME_WE)
      add_executable(${ROOM_NAME}_${name} ${source})
      target_link_libraries(${ROOM_NAME}_${name} PRIVATE ${fuzzed} ${ROOM_LIBRARIES} penstock_fuzz_options)
      target_link_options(${ROOM_NAME}_${name} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzzers ${ROOM_NAME}_${name})
    endforeach()
  endif()

  file(GLOB testing CONFIGURE_DEPENDS testing/*.cc)
  set(test_libraries penstock_${ROOM_NAME} ${ROOM_LIBRARIES} ${ROOM_TEST_LIBRARIES})
  if(testing)
    add_library(penstock_${ROOM_NAME}_testing STATIC ${testing})
    target_link_libraries(penstock_${ROOM_NAME}_testing
      PUBLIC penstock_${ROOM_NAME} ${ROOM_TEST_LIBRARIES} GTest::gmock GTest::gtest
      PRIVATE penstock_test_options)
    list(APPEND test_libraries penstock_${ROOM_NAME}_testing)
  endif()
  if(ROOM_TESTS_APART OR NOT tests)
    add_custom_target(${ROOM_NAME}_tests)
    foreach(source IN LISTS tests)
      get_filename_component(name ${source} NAME_WE)
      penstock_test(${ROOM_NAME}_${name} ${ROOM_NAME} ${source} ${test_libraries})
      add_dependencies(${ROOM_NAME}_tests ${ROOM_NAME}_${name})
    endforeach()
  else()
    penstock_test_program(${ROOM_NAME}_tests ${tests} ${CMAKE_SOURCE_DIR}/tests/room_tests_main.cc)
    target_link_libraries(${ROOM_NAME}_tests PRIVATE ${test_libraries} GTest::gtest)
    penstock_unity(${ROOM_NAME}_tests)
    foreach(source IN LISTS tests)
      get_filename_component(name ${source} NAME_WE)
      penstock_add_test(${ROOM_NAME}_${name} ${ROOM_NAME} ${ROOM_NAME}_tests --file ${name})
    endforeach()
  endif()
endfunction()

# What nearly every test includes, parsed once: a third of a test's compile time. It is a program, as the tests
# are, because a precompiled header fits only where the flags are the same.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "int main() {}\n")
add_executable(penstock_test_headers ${CMAKE_BINARY_DIR}/test_headers.cc)
target_link_libraries(penstock_test_headers
  PRIVATE penstock_compile_options penstock_test_options absl::statusor absl::strings absl::str_format
          absl::flat_hash_map absl::flat_hash_set GTest::gmock Threads::Threads)
target_precompile_headers(penstock_test_headers PRIVATE
  <gmock/gmock.h> <gtest/gtest.h> <algorithm> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional>
  <sstream> <string> <thread> <variant> <vector> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
  ${PENSTOCK_JSON_HEADER})

# Several files of `target` are compiled as one.
function(penstock_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PENSTOCK_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(PENSTOCK_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC takes a class of an included .cc for one of a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(penstock_test_program name)
  add_executable(${name} ${ARGN})
  target_precompile_headers(${name} REUSE_FROM penstock_test_headers)
  target_link_libraries(${name} PRIVATE penstock_test_options GTest::gmock)
endfunction()

# One ctest entry with the label of its room.
function(penstock_add_test name label)
  # Tests compile what they test, and leave no programs in the user's cache.
  set(programs 0)
  if(ROOM_SHARE_PROGRAMS)
    set(programs ${CMAKE_SOURCE_DIR}/build/results/programs)
  endif()
  # From here, a test finds its files by __FILE__ even when a compiler cache made that relative.
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600
    # Arrow and other libraries are not built for ThreadSanitizer, which then sees what they do to
    # memory but not their atomics: races are only reported from code that is.
    ENVIRONMENT "PENSTOCK_COMPILE_CACHE=${programs};TSAN_OPTIONS=die_after_fork=0:suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp:ignore_noninstrumented_modules=1;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0")
endfunction()

# One GoogleTest program that is one ctest entry.
function(penstock_test name label source)
  penstock_test_program(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest_main)
  penstock_add_test(${name} ${label} ${name})
endfunction()

# Lets a test's system calls fail (penstock/io/testing/system_call_faults.h): the linker gives the program's own code
# those of that file first.
function(penstock_wrap_system_calls target)
  set(calls open mkostemp close read pread write pwrite fsync fstat stat lstat fstatat fcntl fchmod ftruncate flock
      futimens rename unlink mkdir opendir readdir realpath mmap)
  list(TRANSFORM calls PREPEND "LINKER:--wrap=")
  target_link_options(${target} PRIVATE ${calls})
  target_link_libraries(${target} PRIVATE penstock_io_testing)
endfunction()
