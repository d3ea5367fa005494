# SPDX-License-Identifier: Apache-2.0
# An overlay port of the tree that holds it: vcpkg install zero-sharding --overlay-ports=packaging/vcpkg
set(VCPKG_BUILD_TYPE release)  # headers only
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
                      OPTIONS -DZERO_INSTALL=ON -DZERO_BUILD_TESTS=OFF -DZERO_BUILD_EXAMPLES=OFF
                              -DZERO_BUILD_BENCHMARKS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME zero CONFIG_PATH share/cmake/zero)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
