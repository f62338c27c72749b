# cmake --install BUILD --prefix DIR: the program, the libraries with their headers and CMake package, and in lib/penstock
# what is found at run time. The tree may be moved as a whole.
include(CMakePackageConfigHelpers)

install(DIRECTORY penstock/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock
        FILES_MATCHING PATTERN "*.h" PATTERN testing EXCLUDE PATTERN cli EXCLUDE)
install(FILES ${PENSTOCK_UNPACKED}/pjrt_cpu/xla_cpu_pjrt.so ${PENSTOCK_UNPACKED}/pyarrow/libarrow.so.2600
              ${PENSTOCK_UNPACKED}/pyarrow/libarrow_s3.so.2600
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock)
if(PENSTOCK_PROGRAM)
  install(TARGETS penstock DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Penstock)
install(EXPORT PenstockTargets NAMESPACE penstock:: DESTINATION ${package})
configure_package_config_file(cmake/PenstockConfig.cmake.in ${PROJECT_BINARY_DIR}/PenstockConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 each minor version may change what programs call.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/PenstockConfig.cmake ${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake
        cmake/Libraries.cmake DESTINATION ${package})
