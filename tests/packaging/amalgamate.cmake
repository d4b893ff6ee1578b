cmake_minimum_required(VERSION 3.25)
# Makes one header of the whole book, for those who want to copy a single file:
#   cmake -DOUTPUT=single/glassbox.hpp -P tests/packaging/amalgamate.cmake
# Each header follows those it includes, once; standard and Eigen includes stay where they are. The result is
# made on demand and never committed: breakpoints and searches belong to the headers.
if(NOT OUTPUT)
  message(FATAL_ERROR "say where to: cmake -DOUTPUT=FILE -P amalgamate.cmake")
endif()
set(INCLUDE "${CMAKE_CURRENT_LIST_DIR}/../../include" CACHE PATH "The folder with glassbox/")

function(append_header header)
  get_property(appended GLOBAL PROPERTY appended)
  if(header IN_LIST appended)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY appended ${header})
  file(READ "${INCLUDE}/${header}" text)
  string(REGEX MATCHALL "#include \"glassbox/[a-z0-9_/]+[.]hpp" own_includes "${text}")
  foreach(own_include IN LISTS own_includes)
    string(REPLACE "#include \"" "" included "${own_include}")
    append_header(${included})
  endforeach()
  string(REGEX REPLACE "#include \"glassbox/[^\n]*\n|#pragma once\n" "" text "${text}")
  file(APPEND "${OUTPUT}" "// ======== ${header}\n${text}\n")
endfunction()

file(WRITE "${OUTPUT}" "// glassbox in one file, made by tests/packaging/amalgamate.cmake.\n#pragma once\n\n")
append_header(glassbox/glassbox.hpp)
