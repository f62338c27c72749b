# A room is one folder under penstock/ and one library, penstock::<room>. Its CMakeLists.txt is one call:
#
#   penstock_room(NAME record
#                 USES base io                 # rooms; only those listed before this one in PENSTOCK_ROOMS
#                 LIBRARIES ZLIB::ZLIB)        # third-party targets
#
# Every .cc in the folder and in folders inside it belongs to the library, except x_test.cc (a ctest entry of its own,
# <room>_x_test; all of a room are one program, <room>_tests), x_fuzz.cc (a libFuzzer program of its own, <room>_x_fuzz,
# built by the preset asan; the target <room>_fuzzers is all of a room) and x_main.cc (a program). So the names of tests
# and fuzz targets are used once in a room, whatever their folder. Files in testing/ make the library
# penstock_<room>_testing, which only tests link. APART names folders whose files are not the room's: its CMakeLists.txt
# makes other libraries of them.
#
# Up to eight files of one folder, and up to thirty tests, are compiled at once, which halves the time (CMake's unity
# builds): what they declare in anonymous namespaces has names that are used once in the room. ALONE: only its tests.
#
# CONFORMANCE names files of testing/ with value-parameterized suites that several tests instantiate. Each is a ctest entry
# of its own, <room>_<file>, for all instantiations.
#
# LONG_TESTS are started first, so that no core waits for them at the end. TESTS_COMPILE_FAST: the room's tests run each
# program of the CPU plugin a few times, and spend half of their time compiling it otherwise. REPLAY_FUZZERS: without
# libFuzzer, each fuzz target is a ctest entry that runs its seeds and variants of them.

include(GNUInstallDirs)

# `target` is penstock::<name> for other projects, however they get it.
function(penstock_export target name)
  add_library(penstock::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(PENSTOCK_INSTALL)
    install(TARGETS ${target} EXPORT PenstockTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock)
  endif()
endfunction()

# __FILE__ of a room is "penstock/ir/graph.cc": messages say that, and no path of the building machine is installed.
set(PENSTOCK_SHORT_FILE_NAMES -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

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
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "")
  add_library(penstock_headers STATIC ${PROJECT_BINARY_DIR}/headers.cc)
  target_link_libraries(penstock_headers
    PUBLIC absl::statusor absl::strings absl::str_format absl::inlined_vector
           absl::flat_hash_map Threads::Threads)
  target_compile_options(penstock_headers PRIVATE ${PENSTOCK_SHORT_FILE_NAMES})
  if(PENSTOCK_FUZZ)
    target_link_libraries(penstock_headers PRIVATE penstock_fuzz_options)
  endif()
  target_precompile_headers(penstock_headers PRIVATE ${PENSTOCK_HEADERS} ${PENSTOCK_JSON_HEADER})
endif()

function(penstock_room)
  cmake_parse_arguments(ROOM "ALONE;TESTS_COMPILE_FAST;REPLAY_FUZZERS" "NAME"
                        "USES;LIBRARIES;TEST_LIBRARIES;LONG_TESTS;APART;CONFORMANCE" ${ARGN})
  list(FIND PENSTOCK_ROOMS ${ROOM_NAME} self)
  set(used)
  foreach(other IN LISTS ROOM_USES)
    list(FIND PENSTOCK_ROOMS ${other} index)
    if(index LESS 0 OR index GREATER_EQUAL self)
      message(FATAL_ERROR "room ${ROOM_NAME} may not use room ${other}: it does not stand above it")
    endif()
    list(APPEND used penstock_${other})
  endforeach()

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  foreach(folder IN LISTS ROOM_APART ITEMS testing testdata)
    list(FILTER sources EXCLUDE REGEX "(^|/)${folder}/")
  endforeach()
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|main)\\.cc$")

  add_library(penstock_${ROOM_NAME} STATIC ${sources})
  target_link_libraries(penstock_${ROOM_NAME}
    PUBLIC ${used} absl::status absl::statusor absl::strings
           absl::str_format absl::span absl::inlined_vector absl::flat_hash_map absl::flat_hash_set
           absl::function_ref Threads::Threads
    PRIVATE ${ROOM_LIBRARIES})
  target_compile_features(penstock_${ROOM_NAME} PUBLIC cxx_std_20)
  target_include_directories(penstock_${ROOM_NAME} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_options(penstock_${ROOM_NAME} PRIVATE ${PENSTOCK_SHORT_FILE_NAMES})
  if(NOT ROOM_NAME STREQUAL cli)  # programs are not for other projects
    penstock_export(penstock_${ROOM_NAME} ${ROOM_NAME})
  endif()
  if(PENSTOCK_PRECOMPILE)
    target_precompile_headers(penstock_${ROOM_NAME} REUSE_FROM penstock_headers)
  endif()
  if(NOT ROOM_ALONE)
    penstock_unity(penstock_${ROOM_NAME})
  endif()

  if(PENSTOCK_FUZZ)
    target_link_libraries(penstock_${ROOM_NAME} PRIVATE $<BUILD_INTERFACE:penstock_fuzz_options>)
    add_custom_target(${ROOM_NAME}_fuzzers)
    add_dependencies(fuzzers ${ROOM_NAME}_fuzzers)
    foreach(source IN LISTS fuzzers)
      get_filename_component(name ${source} NAME_WE)
      add_executable(${ROOM_NAME}_${name} ${source})
      target_link_libraries(${ROOM_NAME}_${name} PRIVATE penstock_${ROOM_NAME} ${ROOM_LIBRARIES} penstock_fuzz_options)
      target_link_options(${ROOM_NAME}_${name} PRIVATE -fsanitize=fuzzer)
      add_dependencies(${ROOM_NAME}_fuzzers ${ROOM_NAME}_${name})
    endforeach()
  endif()

  if(NOT PENSTOCK_TESTS)
    return()
  endif()
  file(GLOB testing CONFIGURE_DEPENDS testing/*.cc)
  set(test_libraries penstock_${ROOM_NAME} ${ROOM_LIBRARIES} ${ROOM_TEST_LIBRARIES})
  if(TARGET penstock_runtime)  # as in our programs
    list(APPEND test_libraries penstock_allocator)
  endif()
  if(testing)
    add_library(penstock_${ROOM_NAME}_testing STATIC ${testing})
    target_link_libraries(penstock_${ROOM_NAME}_testing
      PUBLIC penstock_${ROOM_NAME} ${ROOM_TEST_LIBRARIES} GTest::gmock GTest::gtest
      PRIVATE penstock_test_options)
    if(PENSTOCK_PRECOMPILE)
      penstock_reuse_test_headers(penstock_${ROOM_NAME}_testing)
    endif()
    penstock_unity(penstock_${ROOM_NAME}_testing)
    list(APPEND test_libraries penstock_${ROOM_NAME}_testing)
  endif()
  if(NOT tests)
    add_custom_target(${ROOM_NAME}_tests)
  else()
    penstock_test_program(${ROOM_NAME}_tests ${tests})
    target_link_libraries(${ROOM_NAME}_tests PRIVATE ${test_libraries} penstock_test_main)
    penstock_unity_of_tests(${ROOM_NAME}_tests)
    set(arguments)
    if(ROOM_TESTS_COMPILE_FAST)
      set(arguments --compile-fast)
    endif()
    foreach(source IN LISTS tests)
      get_filename_component(name ${source} NAME_WE)
      penstock_add_test(${ROOM_NAME}_${name} ${ROOM_NAME} ${ROOM_NAME}_tests --file ${name} ${arguments})
    endforeach()
    foreach(name IN LISTS ROOM_CONFORMANCE)
      penstock_add_test(${ROOM_NAME}_${name} ${ROOM_NAME} ${ROOM_NAME}_tests --file ${name} ${arguments})
    endforeach()
  endif()
  if(ROOM_REPLAY_FUZZERS AND NOT PENSTOCK_FUZZ)
    penstock_replay_fuzzers(${ROOM_NAME} "${fuzzers}" "${test_libraries}")
  endif()
  foreach(test IN LISTS ROOM_LONG_TESTS)
    set_tests_properties(${test} PROPERTIES COST 20)
  endforeach()
endfunction()

# Each fuzz target as a ctest entry without libFuzzer: its seeds, and variants of them.
function(penstock_replay_fuzzers room sources libraries)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_fuzz$" "_corpus" corpus ${name})
    add_executable(${room}_${name}_replay ${source} ${PROJECT_SOURCE_DIR}/tests/replay_fuzzer_main.cc)
    target_link_libraries(${room}_${name}_replay PRIVATE penstock_test_options ${libraries})
    penstock_add_test(${room}_${name} ${room} ${room}_${name}_replay ${CMAKE_CURRENT_SOURCE_DIR}/testdata/${corpus})
  endforeach()
endfunction()

# What nearly every test includes, parsed once: a third of a test's compile time. It is a program, as the tests
# are, because a precompiled header fits only where the flags are the same.
if(PENSTOCK_TESTS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc CONTENT "int main() {}\n")
  add_executable(penstock_test_headers ${PROJECT_BINARY_DIR}/test_headers.cc)
  target_link_libraries(penstock_test_headers
    PRIVATE penstock_test_options absl::statusor absl::strings absl::str_format
            absl::flat_hash_map absl::flat_hash_set GTest::gmock Threads::Threads)
  target_precompile_headers(penstock_test_headers PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <algorithm> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional>
    <sstream> <string> <thread> <variant> <vector> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    ${PENSTOCK_JSON_HEADER})

  # The main program of all tests.
  add_library(penstock_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/test_main.cc)
  target_include_directories(penstock_test_main PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(penstock_test_main PUBLIC GTest::gtest PRIVATE penstock_test_options)
endif()

# A library that only test programs link can use their precompiled header if it is compiled like a program.
function(penstock_reuse_test_headers library)
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${library} PRIVATE -fPIE)
  target_precompile_headers(${library} REUSE_FROM penstock_test_headers)
endfunction()

# Several files of `target` are compiled as one: eight in the order of their names, or, if the target has files in
# several folders, at most eight of one folder, so that a change to one folder recompiles nothing of another.
function(penstock_unity target)
  penstock_unity_options(${target})
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    if(folder STREQUAL "" OR IS_ABSOLUTE ${source})
      set(folder top)
    endif()
    list(APPEND folders ${folder})
    list(APPEND sources_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    string(MAKE_C_IDENTIFIER ${folder} name)
    penstock_unity_groups(${name} 8 ${sources_of_${folder}})
  endforeach()
endfunction()

# Tests are compiled without optimization: most of the time goes into templates of GoogleTest and the standard library, which
# each unit instantiates again. Thirty files as one take half the time of four times eight, and no longer than two of those.
function(penstock_unity_of_tests target)
  penstock_unity_options(${target})
  get_target_property(sources ${target} SOURCES)
  penstock_unity_groups(all 30 ${sources})
endfunction()

function(penstock_unity_options target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PENSTOCK_UNITY} UNITY_BUILD_MODE GROUP)
  if(PENSTOCK_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC takes a class of an included .cc for one of a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# Divides the files into as few groups of at most `most` as possible, all of about the same size.
function(penstock_unity_groups name most)
  list(LENGTH ARGN count)
  math(EXPR groups "(${count} + ${most} - 1) / ${most}")
  set(index 0)
  foreach(source IN LISTS ARGN)
    math(EXPR group "${index} * ${groups} / ${count}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${group})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

function(penstock_test_program name)
  add_executable(${name} ${ARGN})
  target_precompile_headers(${name} REUSE_FROM penstock_test_headers)
  target_link_libraries(${name} PRIVATE penstock_test_options GTest::gmock)
endfunction()

# One ctest entry with the label of its room.
function(penstock_add_test name label)
  # What a test has XLA compile is kept for the tests after it, of which many compile the same program, and for the
  # sanitized ones. ./test begins with an empty folder. (Tests that count compilations have folders of their own.)
  set(programs ${PROJECT_SOURCE_DIR}/build/results/programs)
  # From here, a test finds its files by __FILE__ even when a compiler cache made that relative.
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600
    # Arrow and other libraries are not built for ThreadSanitizer, which then sees what they do to
    # memory but not their atomics: races are only reported from code that is.
    ENVIRONMENT "PENSTOCK_COMPILE_CACHE=${programs};TSAN_OPTIONS=die_after_fork=0:suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:ignore_noninstrumented_modules=1;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0")
endfunction()

# One GoogleTest program that is one ctest entry. COMPILE_FAST: as TESTS_COMPILE_FAST of a room.
function(penstock_test name label source)
  cmake_parse_arguments(TEST "COMPILE_FAST" "" "" ${ARGN})
  penstock_test_program(${name} ${source})
  target_link_libraries(${name} PRIVATE ${TEST_UNPARSED_ARGUMENTS} penstock_test_main)
  set(arguments)
  if(TEST_COMPILE_FAST)
    set(arguments --compile-fast)
  endif()
  penstock_add_test(${name} ${label} ${name} ${arguments})
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
