# SPDX-License-Identifier: Apache-2.0
# The web page of the server, as a string in the program.
set(page ${CMAKE_SOURCE_DIR}/src/serve/web_page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} CLOVER_WEB_PAGE)
string(LENGTH "${CLOVER_WEB_PAGE}" length)
if(length GREATER 60000)
  message(FATAL_ERROR "${page} is longer than a string literal may be")
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/web_page.cc.in ${CMAKE_BINARY_DIR}/web_page.cc @ONLY)
target_sources(clover_serve PRIVATE ${CMAKE_BINARY_DIR}/web_page.cc)
