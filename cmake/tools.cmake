# ccache and mold, where present.
find_program(FIRN_CCACHE ccache)
if(FIRN_CCACHE)
  # Precompiled headers need these sloppiness settings; the base directory lets two checkouts share one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G ${FIRN_CCACHE})
endif()
find_program(FIRN_MOLD mold)
if(FIRN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
