# A CMake package in the build folder: find_package(firn PATHS <build folder>) gives programs elsewhere firn::iceberg,
# firn::hyp and firn::orca as they are built there. Nothing is installed.
get_property(firn_targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER firn_targets INCLUDE REGEX "^firn_")
export(TARGETS ${firn_targets} FILE ${CMAKE_BINARY_DIR}/firn-targets.cmake)
configure_file(cmake/firn-config.cmake.in ${CMAKE_BINARY_DIR}/firn-config.cmake @ONLY)
