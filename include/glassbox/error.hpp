// What glassbox throws. Every check is on in every build, and every message names what was found and what
// was expected.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

#include "glassbox/version.hpp"

namespace glassbox {

// The base of all glassbox exceptions. what() is the whole message; `message` holds its beginning inside
// the object, where a debugger stopped by `catch throw` reads it even from a core file.
struct Error : std::runtime_error {
  char message[512] = {};

  explicit Error(const std::string& text) : std::runtime_error(text) {
    const std::size_t length = text.size() < sizeof message - 1 ? text.size() : sizeof message - 1;
    std::memcpy(message, text.data(), length);
  }
};

// Two shapes that do not fit, an axis or an index out of range.
struct ShapeError : Error {
  using Error::Error;
};

// A configuration that contradicts itself, or that this library does not honour.
struct ConfigError : Error {
  using Error::Error;
};

// A file that cannot be read: missing, truncated, malformed, of another format.
struct FormatError : Error {
  using Error::Error;
};

// An id outside the vocabulary, or text a tokenizer cannot take.
struct TokenError : Error {
  using Error::Error;
};

// NaN or +infinity where only finite numbers make sense.
struct NumericError : Error {
  using Error::Error;
};

// A request that cannot be met: a prompt longer than the context, a negative temperature, ...
struct UsageError : Error {
  using Error::Error;
};

// Every throw of the library is one of these calls, so `break glassbox::throw_error` shows each message
// before the stack unwinds.
template <typename ErrorType>
[[noreturn]] GLASSBOX_NOINLINE void throw_error(const std::string& message) {
  throw ErrorType(message);
}

}  // namespace glassbox
