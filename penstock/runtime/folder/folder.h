// Location of an installed Penstock. A shared library of its own, because the rooms are static
// libraries: they become a part of the program that links them, wherever that is.
//
// Internal to room runtime.
#pragma once

// Folder of libpenstock_folder.so, where plugins are installed; "" if the system does not report
// it. Valid for the lifetime of the process.
extern "C" const char* PenstockLibraryFolder();
