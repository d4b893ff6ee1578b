// The study build: every line of glassbox and of your program can be stepped and every local read, as at
// -O0, while the arithmetic below runs optimised. Force-include this header before all others:
//
//   g++ -std=c++20 -g -O3 -march=native -I include -isystem /usr/include/eigen3
//       -fno-var-tracking -fno-omit-frame-pointer -fno-shrink-wrap -fno-ipa-sra -fcf-protection=branch
//       -include glassbox/debugger/study_build.hpp main.cpp
//
// clang++ takes -fno-omit-frame-pointer -fstandalone-debug instead of the second line. (Without the first
// flag of either, gdb may stop in a function before its arguments are there; without the other four of g++,
// `step` in lldb may enter the standard library, or lose its way in Eigen. The last one is for x86 alone.)
// CMake's preset `debug` gives these flags to our own tests and examples. The header is optional: without it,
// -O0 -g shows the same lines and locals and is some ten times slower.
//
// How it works: the unit is compiled at -O3. What is included here, first, keeps that: Eigen, the standard
// headers below, and glassbox's kernels. All that comes after the pragma is compiled at -O0: the book, the
// appendices and the program. -O3 alone would have no breakpoint on whole statements of gcc 12, and -Og
// neither.
#pragma once

// The standard headers that matter for speed; not <filesystem>, whose names would then be found in every
// unit.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <Eigen/Core>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "glassbox/kernels/products.hpp"
#include "glassbox/kernels/stored_types.hpp"

#if defined(__clang__)
#pragma clang optimize off
#elif defined(__GNUC__)
#pragma GCC optimize("O0")
#endif
