# Installs BUILD into a fresh PREFIX, all of it or one COMPONENT.
file(REMOVE_RECURSE ${PREFIX})
set(component "")
if(COMPONENT)
  set(component --component ${COMPONENT})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} ${component}
  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
