# The libraries that rooms link, in a build of Penstock and in a project that found an installed one:
# penstock_find_library(PACKAGE ...) is find_package in the first and find_dependency in the second, and
# PENSTOCK_ARROW is the path of Arrow's library.

penstock_find_library(absl)
penstock_find_library(Threads)
penstock_find_library(ZLIB)
penstock_find_library(JPEG)
penstock_find_library(CURL 7.68)  # curl_multi_poll and curl_multi_wakeup
penstock_find_library(OpenSSL 3)
penstock_find_library(nlohmann_json 3)
penstock_find_library(Protobuf)
penstock_find_library(Snappy)
penstock_find_library(PkgConfig)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial)

# Arrow C++, from the pyarrow wheel.
if(NOT TARGET penstock::arrow)
  add_library(penstock::arrow SHARED IMPORTED GLOBAL)
  set_target_properties(penstock::arrow PROPERTIES IMPORTED_LOCATION ${PENSTOCK_ARROW})
endif()

# oneDNN, and the OpenMP runtime that Debian builds it with (room kernels tells it to start no threads).
find_library(PENSTOCK_DNNL dnnl REQUIRED)
mark_as_advanced(PENSTOCK_DNNL)
if(NOT TARGET penstock::dnnl)
  add_library(penstock::dnnl INTERFACE IMPORTED GLOBAL)
  target_link_libraries(penstock::dnnl INTERFACE ${PENSTOCK_DNNL} gomp)
endif()

# gRPC. Its own CMake package adds flags of RE2's to every user, which our precompiled header does without.
find_library(PENSTOCK_GRPCXX grpc++ REQUIRED)
find_library(PENSTOCK_GRPC grpc REQUIRED)
find_library(PENSTOCK_GPR gpr REQUIRED)
mark_as_advanced(PENSTOCK_GRPCXX PENSTOCK_GRPC PENSTOCK_GPR)
if(NOT TARGET penstock::grpc)
  add_library(penstock::grpc INTERFACE IMPORTED GLOBAL)
  target_link_libraries(penstock::grpc INTERFACE ${PENSTOCK_GRPCXX} ${PENSTOCK_GRPC} ${PENSTOCK_GPR})
endif()

# tcmalloc, for penstock::allocator. Nothing refers to it by name, hence --no-as-needed.
find_library(PENSTOCK_TCMALLOC_MINIMAL NAMES tcmalloc_minimal libtcmalloc_minimal.so.4)
mark_as_advanced(PENSTOCK_TCMALLOC_MINIMAL)
if(PENSTOCK_TCMALLOC_MINIMAL AND NOT TARGET penstock::tcmalloc)
  add_library(penstock::tcmalloc INTERFACE IMPORTED GLOBAL)
  target_link_libraries(penstock::tcmalloc INTERFACE
    -Wl,--push-state,--no-as-needed ${PENSTOCK_TCMALLOC_MINIMAL} -Wl,--pop-state)
endif()
