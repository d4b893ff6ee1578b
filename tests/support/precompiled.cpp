// An empty unit: CMake needs one to make the precompiled header of the tests from.
