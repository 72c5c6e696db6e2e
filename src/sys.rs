//! The system calls that neither nix nor rustix offers: the only `unsafe` of the library.
