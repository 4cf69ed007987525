# Installs the documents in share/doc/runtime, each with its path in this tree, so that the links between them hold; in the
# build tree there are links to them. Those for authors of plugins belong to another component, see plugins/CMakeLists.txt.
set(folder ${CMAKE_INSTALL_DATADIR}/doc/runtime)
# The manifests of tools/kubernetes are documents too: users copy them.
file(GLOB documents CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/*.md ${CMAKE_SOURCE_DIR}/LICENSE
  ${CMAKE_SOURCE_DIR}/tools/kubernetes/*.yaml)
foreach(room backends collectives plugins runtime tests tools)
  file(GLOB_RECURSE of_room CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${room}/*.md)
  list(APPEND documents ${of_room})
endforeach()
list(FILTER documents EXCLUDE REGEX "^plugins/examples/")
foreach(document IN LISTS documents)
  cmake_path(GET document PARENT_PATH below)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/doc/runtime/${below})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${document} ${CMAKE_BINARY_DIR}/share/doc/runtime/${document} SYMBOLIC)
  if(NOT below STREQUAL plugins)
    install(FILES ${CMAKE_SOURCE_DIR}/${document} DESTINATION ${folder}/${below})
  endif()
endforeach()
file(CREATE_LINK ../../runtime/configs ${CMAKE_BINARY_DIR}/share/doc/runtime/configs SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/share/doc/runtime/configs DESTINATION ${folder})
