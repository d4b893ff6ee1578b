# The parts of glassbox that need more than Eigen: how their dependencies are found. Used by glassbox's own
# CMakeLists.txt and, installed beside glassboxConfig.cmake, by find_package(glassbox COMPONENTS ...): no path
# of the machine that built glassbox is written into the package.

# glassbox_find_component(NAME): sets NAME_found and, if it is true, NAME_include_dir and NAME_library
# (empty where there is nothing to link), else NAME_message: what lacks and how to install it.
function(glassbox_find_component name)
  set(library "")
  if(name STREQUAL "sentencepiece")
    find_path(GLASSBOX_SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
    find_library(GLASSBOX_SENTENCEPIECE_LIBRARY sentencepiece)
    mark_as_advanced(GLASSBOX_SENTENCEPIECE_INCLUDE_DIR GLASSBOX_SENTENCEPIECE_LIBRARY)
    set(include_dir "${GLASSBOX_SENTENCEPIECE_INCLUDE_DIR}")
    set(library "${GLASSBOX_SENTENCEPIECE_LIBRARY}")
    string(CONCAT message "libsentencepiece (sentencepiece_processor.h and the library) not found; "
      "install it by: apt install libsentencepiece-dev | brew install sentencepiece | vcpkg install sentencepiece")
  elseif(name STREQUAL "io")
    find_path(GLASSBOX_NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp)
    mark_as_advanced(GLASSBOX_NLOHMANN_JSON_INCLUDE_DIR)
    set(include_dir "${GLASSBOX_NLOHMANN_JSON_INCLUDE_DIR}")
    string(CONCAT message "nlohmann/json.hpp not found; install it by: "
      "apt install nlohmann-json3-dev | brew install nlohmann-json | vcpkg install nlohmann-json")
  else()
    set(include_dir "NOTFOUND")
    set(message "there is no component of this name; the components are: sentencepiece io")
  endif()
  set(found TRUE)
  if(NOT include_dir OR library MATCHES "NOTFOUND$")
    set(found FALSE)
  endif()
  foreach(result found include_dir library message)
    set(${name}_${result} "${${result}}" PARENT_SCOPE)
  endforeach()
endfunction()
