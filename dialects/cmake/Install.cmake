# cmake --install: the plugin, the headers, .td and generated .inc files, and what find_package(LegoMLIR) reads.
include(CMakePackageConfigHelpers)
set(package lib/cmake/LegoMLIR)

install(TARGETS LegoMLIR EXPORT LegoMLIRTargets LIBRARY DESTINATION lib)
install(EXPORT LegoMLIRTargets DESTINATION ${package})
install(DIRECTORY include/LegoMLIR DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/include/LegoMLIR DESTINATION include
        FILES_MATCHING PATTERN "*.inc" PATTERN "CMakeFiles" EXCLUDE)

set(LegoMLIR_INCLUDE_DIRS include)
configure_package_config_file(
  cmake/LegoMLIRConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/LegoMLIRConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS LegoMLIR_INCLUDE_DIRS)
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/LegoMLIRConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/LegoMLIRConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/LegoMLIRConfigVersion.cmake
        DESTINATION ${package})
