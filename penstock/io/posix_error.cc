#include "penstock/io/posix_error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include <sys/stat.h>

#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

using Code = absl::StatusCode;

struct Row {
  int error_number;
  Code code;
  const char* advice = "";
};

constexpr const char* kFailingDisk = "; the disk may be failing: see the kernel's log (dmesg)";
constexpr const char* kBrokenFileSystem =
    "; the file system is corrupt: see the kernel's log (dmesg) and run fsck";
constexpr const char* kNetworkMount = "; is the network mount still there?";
constexpr const char* kOutOfMemory = "; this machine is out of memory";

// Every errno(3) of Linux, by group. None is DataLoss, which means that bytes were read and are
// corrupt; here nothing was read.
constexpr Row kRows[] = {
    // The file does not exist.
    {ENOENT, Code::kNotFound},

    // Permissions.
    {EACCES, Code::kPermissionDenied},
    {EPERM, Code::kPermissionDenied},
    {EROFS, Code::kPermissionDenied},
    {ENOKEY, Code::kUnauthenticated, "; the key of this encrypted or network folder is missing"},
    {EKEYEXPIRED, Code::kUnauthenticated, "; log in to the network file system again"},
    {EKEYREVOKED, Code::kUnauthenticated, "; log in to the network file system again"},
    {EKEYREJECTED, Code::kUnauthenticated, "; log in to the network file system again"},

    // A resource is exhausted.
    {ENOSPC, Code::kResourceExhausted, "; free some space on that disk"},
    {EDQUOT, Code::kResourceExhausted, "; this user's disk quota is exhausted"},
    {EFBIG, Code::kResourceExhausted, "; the file size limit (ulimit -f) is reached"},
    {EMFILE, Code::kResourceExhausted, "; this process has too many files open (ulimit -n)"},
    {ENFILE, Code::kResourceExhausted, "; this machine has too many files open"},
    {EMLINK, Code::kResourceExhausted, "; a folder of that disk has too many entries"},
    {ENOMEM, Code::kResourceExhausted, kOutOfMemory},
    {ENOBUFS, Code::kResourceExhausted, kOutOfMemory},
    {EUSERS, Code::kResourceExhausted},
    {ENOSR, Code::kResourceExhausted, kOutOfMemory},
    {EXFULL, Code::kResourceExhausted},

    // The disk, or the file system on it, failed.
    {EIO, Code::kUnavailable, kFailingDisk},
    {ENODATA, Code::kUnavailable, kFailingDisk},  // how Linux reports a bad sector
    {EREMOTEIO, Code::kUnavailable, kFailingDisk},
    {EILSEQ, Code::kUnavailable, kFailingDisk},  // a sector's own checksum (T10 PI)
    {EHWPOISON, Code::kUnavailable, "; this machine's memory is failing"},
    {EUCLEAN, Code::kUnavailable, kBrokenFileSystem},
    {EBADMSG, Code::kUnavailable, kBrokenFileSystem},
    {ESHUTDOWN, Code::kUnavailable, "; the file system was shut down after an error"},
    {ENODEV, Code::kUnavailable, "; the device is missing"},
    {ENXIO, Code::kUnavailable, "; the device is missing"},
    {ENOMEDIUM, Code::kUnavailable, "; the drive is empty"},
    {EMEDIUMTYPE, Code::kUnavailable},
    {EBUSY, Code::kUnavailable},
    {ETXTBSY, Code::kUnavailable, "; the file is being executed"},
    {EDEADLK, Code::kUnavailable},
    {ENOLCK, Code::kUnavailable},
    {EAGAIN, Code::kUnavailable},
    {EINTR, Code::kUnavailable},
    {ERESTART, Code::kUnavailable},
    {ECANCELED, Code::kUnavailable},
    {EOWNERDEAD, Code::kUnavailable},
    {ENOTRECOVERABLE, Code::kUnavailable},
    {ERFKILL, Code::kUnavailable},

    // The server of a network file system (NFS, SMB, Lustre, FUSE), or the connection to it,
    // failed.
    {ESTALE, Code::kUnavailable,
     "; the file was replaced on the server, or the network mount is stale"},
    {ETIMEDOUT, Code::kUnavailable, kNetworkMount},
    {ETIME, Code::kUnavailable, kNetworkMount},
    {EHOSTDOWN, Code::kUnavailable, kNetworkMount},
    {EHOSTUNREACH, Code::kUnavailable, kNetworkMount},
    {ENETDOWN, Code::kUnavailable, kNetworkMount},
    {ENETUNREACH, Code::kUnavailable, kNetworkMount},
    {ENETRESET, Code::kUnavailable, kNetworkMount},
    {ENOTCONN, Code::kUnavailable, kNetworkMount},  // a FUSE mount whose program has ended
    {ECONNREFUSED, Code::kUnavailable, kNetworkMount},
    {ECONNRESET, Code::kUnavailable, kNetworkMount},
    {ECONNABORTED, Code::kUnavailable, kNetworkMount},
    {EPIPE, Code::kUnavailable, "; the reading process has exited"},
    {ENOLINK, Code::kUnavailable, kNetworkMount},
    {ENONET, Code::kUnavailable, kNetworkMount},
    {ECOMM, Code::kUnavailable, kNetworkMount},
    {EPROTO, Code::kUnavailable, kNetworkMount},
    {EREMCHG, Code::kUnavailable, kNetworkMount},
    {EREMOTE, Code::kUnavailable, kNetworkMount},
    {EMULTIHOP, Code::kUnavailable, kNetworkMount},
    {EALREADY, Code::kUnavailable},
    {EINPROGRESS, Code::kUnavailable},
    {EADDRINUSE, Code::kUnavailable},
    {EADDRNOTAVAIL, Code::kUnavailable},
    {EADV, Code::kUnavailable, kNetworkMount},
    {ESRMNT, Code::kUnavailable, kNetworkMount},
    {ESTRPIPE, Code::kUnavailable, kNetworkMount},

    // The file is of a type that the call does not support.
    {EISDIR, Code::kFailedPrecondition},
    {ENOTDIR, Code::kFailedPrecondition, "; a component of its path is a file, not a folder"},
    {ENOTEMPTY, Code::kFailedPrecondition},
    {EXDEV, Code::kFailedPrecondition, "; the two paths are on different file systems"},
    {ESPIPE, Code::kFailedPrecondition, "; it can only be read as a stream"},
    {ENOTBLK, Code::kFailedPrecondition},
    {ENOTTY, Code::kFailedPrecondition},
    {ENOEXEC, Code::kFailedPrecondition},
    {EOVERFLOW, Code::kFailedPrecondition, "; its size does not fit into 64 bits"},
    {EBADFD, Code::kFailedPrecondition},
    {ENOSTR, Code::kFailedPrecondition},
    {ENOTSOCK, Code::kFailedPrecondition},
    {EISCONN, Code::kFailedPrecondition},
    {EDESTADDRREQ, Code::kFailedPrecondition},
    {EISNAM, Code::kFailedPrecondition},
    {ENOTNAM, Code::kFailedPrecondition},
    {ENAVAIL, Code::kFailedPrecondition},
    {EEXIST, Code::kAlreadyExists},
    {ENOTUNIQ, Code::kAlreadyExists},

    // The name, or an argument, is invalid.
    {ENAMETOOLONG, Code::kInvalidArgument},
    {ELOOP, Code::kInvalidArgument, "; symbolic links point at each other"},
    {EINVAL, Code::kInvalidArgument},
    {E2BIG, Code::kInvalidArgument},
    {EDOM, Code::kInvalidArgument},
    {ERANGE, Code::kInvalidArgument},
    {EMSGSIZE, Code::kInvalidArgument},

    // The file system, or the kernel, does not support the call.
    {ENOSYS, Code::kUnimplemented},
    {EOPNOTSUPP, Code::kUnimplemented},
    {EPROTOTYPE, Code::kUnimplemented},
    {ENOPROTOOPT, Code::kUnimplemented},
    {EPROTONOSUPPORT, Code::kUnimplemented},
    {ESOCKTNOSUPPORT, Code::kUnimplemented},
    {EPFNOSUPPORT, Code::kUnimplemented},
    {EAFNOSUPPORT, Code::kUnimplemented},
    {ETOOMANYREFS, Code::kUnimplemented},
    {ENOPKG, Code::kUnimplemented},
    {EUNATCH, Code::kUnimplemented},
    {ELIBACC, Code::kUnimplemented},
    {ELIBBAD, Code::kUnimplemented},
    {ELIBSCN, Code::kUnimplemented},
    {ELIBMAX, Code::kUnimplemented},
    {ELIBEXEC, Code::kUnimplemented},

    // Caused only by a bug in this program or in a driver.
    {EBADF, Code::kInternal},
    {EFAULT, Code::kInternal},
    {ESRCH, Code::kInternal},
    {ECHILD, Code::kInternal},
    {ENOMSG, Code::kInternal},
    {EIDRM, Code::kInternal},
    {ECHRNG, Code::kInternal},
    {EL2NSYNC, Code::kInternal},
    {EL3HLT, Code::kInternal},
    {EL3RST, Code::kInternal},
    {ELNRNG, Code::kInternal},
    {ENOCSI, Code::kInternal},
    {EL2HLT, Code::kInternal},
    {EBADE, Code::kInternal},
    {EBADR, Code::kInternal},
    {ENOANO, Code::kInternal},
    {EBADRQC, Code::kInternal},
    {EBADSLT, Code::kInternal},
    {EBFONT, Code::kInternal},
    {EDOTDOT, Code::kInternal},
};

const Row* FindRow(int error_number) {
  for (const Row& row : kRows) {
    if (row.error_number == error_number) return &row;
  }
  return nullptr;
}

}  // namespace

absl::Status PosixError(int error_number, absl::string_view doing, absl::string_view uri) {
  const Row* const row = FindRow(error_number);
  return absl::Status(row == nullptr ? Code::kUnknown : row->code,
                      absl::StrCat("cannot ", doing, " '", DisplayName(uri),
                                   "': ", std::generic_category().message(error_number),
                                   row == nullptr ? "" : row->advice));
}

absl::Status PathError(int error_number, absl::string_view doing, absl::string_view uri,
                       const std::string& path) {
  const absl::Status error = PosixError(error_number, doing, uri);
  if (error_number != ENOENT) return error;
  // Checks each component of the path; if only the file itself is missing, the error is NotFound.
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string step = path.substr(0, slash);
    struct stat info;
    if (::lstat(step.c_str(), &info) != 0) return error;
    if (S_ISLNK(info.st_mode) && ::stat(step.c_str(), &info) != 0 && errno == ENOENT) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot ", doing, " '", DisplayName(uri), "': the symbolic link '", step,
                       "' is dangling; is the disk that it points to mounted?"));
    }
    if (slash == std::string::npos) return error;
  }
}

absl::Status IsAFolderError(absl::string_view uri) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", DisplayName(uri), "' is a folder, but a file is expected"));
}

absl::Status IsAFileError(absl::string_view uri) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", DisplayName(uri), "' is a file, but a folder is expected"));
}

}  // namespace penstock::io
