# Run by the build (cmake -P): writes OUTPUT, a header that includes every function and lists them, a line each, as comment.
# HEADERS declare functions of tensors, AD_HEADERS those that record; a function of OTHER_HEADERS has no version for tensors.
# Lists are separated by commas.
cmake_minimum_required(VERSION 3.25)

# _read(FILE OUT): the declarations of FILE, each "name|declaration|first sentence of its comment, as far as its line goes".
# Declarations below each other share the comment above the first.
function(_read file out)
  file(READ ${file} text)
  # What CMake's lists are made of.
  string(REPLACE ";" "%s" text "${text}")
  string(REPLACE "[" "%l" text "${text}")
  string(REPLACE "]" "%r" text "${text}")
  string(REPLACE "\\" "%b" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(found "")
  set(comment "")
  set(in_comment OFF)
  set(declaration "")
  foreach(line IN LISTS lines)
    if(declaration)
      string(STRIP "${line}" line)
      string(APPEND declaration " ${line}")
    elseif(line MATCHES "^/// (.*)$")
      if(NOT in_comment)
        string(REGEX REPLACE "[.] .*$" "" comment "${CMAKE_MATCH_1}")
        set(in_comment ON)
      endif()
      continue()
    elseif(line MATCHES "^(inline )?([A-Za-z_]+ [a-z_0-9]+\\(.*)$")
      set(declaration "${CMAKE_MATCH_2}")
    elseif(line STREQUAL "")
      set(comment "")
    endif()
    set(in_comment OFF)
    string(REGEX REPLACE "\\) {.*$" ")%s" declaration "${declaration}")  # an inline one's body
    if(declaration MATCHES "^([A-Za-z_]+) ([a-z_0-9]+)(\\(.*\\))%s$")
      list(APPEND found "${CMAKE_MATCH_2}|${CMAKE_MATCH_1} ${CMAKE_MATCH_2}${CMAKE_MATCH_3}|${comment}")
      set(declaration "")
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

foreach(list IN ITEMS HEADERS AD_HEADERS OTHER_HEADERS)
  string(REPLACE "," ";" ${list} "${${list}}")
endforeach()
set(recorded "")
foreach(header IN LISTS AD_HEADERS)
  _read(${header} found)
  foreach(function IN LISTS found)
    string(REGEX REPLACE "[|].*$" "" name "${function}")
    list(APPEND recorded ${name})
  endforeach()
endforeach()

set(listing "")
function(_list headers marks)
  foreach(header IN LISTS headers)
    cmake_path(GET header FILENAME title)
    _read(${header} found)
    if(found)
      string(APPEND listing "//\n// ${title}\n")
    endif()
    foreach(function IN LISTS found)
      string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" all "${function}")
      set(mark "  ")
      if(marks AND CMAKE_MATCH_1 IN_LIST recorded)
        set(mark "ad")
      endif()
      string(LENGTH "${CMAKE_MATCH_2}" length)
      math(EXPR padding "66 - ${length}")
      if(padding LESS 2)
        set(padding 2)
      endif()
      string(REPEAT " " ${padding} space)
      string(APPEND listing "//  ${mark} ${CMAKE_MATCH_2}${space}${CMAKE_MATCH_3}\n")
    endforeach()
  endforeach()
  set(listing "${listing}" PARENT_SCOPE)
endfunction()
_list("${HEADERS}" ON)
_list("${OTHER_HEADERS}" OFF)
string(REPLACE "%l" "[" listing "${listing}")
string(REPLACE "%r" "]" listing "${listing}")
string(REPLACE "%b" "\\" listing "${listing}")
string(REPLACE "%s" ";" listing "${listing}")
file(WRITE ${OUTPUT}.new
"// Every function, a line each: what it takes, and what it computes. Made by the build from the headers that declare them,
// which say the rest: dtypes, shapes, errors.
//
// \"ad\": there is a recording version of the same name in ashlar::ad, with Var in place of Tensor.
${listing}#pragma once

#include \"ashlar/ad.h\"
#include \"ashlar/arithmetic.h\"
#include \"ashlar/ops.h\"
#include \"ashlar/var_arithmetic.h\"
#include \"autograd/views.h\"
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUTPUT}.new)
