// The version, and the only macros of the library.
#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "glassbox needs C++20: add -std=c++20 or /std:c++20"
#endif

// CMakeLists.txt reads the version from this line.
#define GLASSBOX_VERSION "0.1.0"

// A function that keeps an address of its own in every build, so that a debugger can always stop in it.
#if defined(_MSC_VER)
#define GLASSBOX_NOINLINE __declspec(noinline)
#else
#define GLASSBOX_NOINLINE __attribute__((noinline))
#endif
