# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs: the headers, the package for find_package, a file for pkg-config.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(zero_package ${CMAKE_INSTALL_DATADIR}/cmake/zero)
set(zero_pkgconfig ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH zero_prefix ${CMAKE_INSTALL_PREFIX}/${zero_pkgconfig} ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/zero.pc.in zero.pc @ONLY)
write_basic_package_version_file(zero-config-version.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(DIRECTORY include/zero DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS zero EXPORT zero INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT zero NAMESPACE zero:: FILE zero-targets.cmake DESTINATION ${zero_package})
install(FILES cmake/zero-config.cmake cmake/checkpoint.cmake cmake/cuda.cmake cmake/mpi.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/zero-config-version.cmake
        DESTINATION ${zero_package})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/zero.pc DESTINATION ${zero_pkgconfig})
