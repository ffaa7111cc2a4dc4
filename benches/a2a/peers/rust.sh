#!/bin/sh
# Starts the echo agent on the official A2A server for Rust: rust.sh PORT FOLDER [tuned] [whole].
# It is built below FOLDER on first use, in its default configuration; `tuned` builds it with the
# allocator and the profile of this program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
port=$1
folder=$2/rust
shift 2
build=release
options=--release
if [ "${1:-}" = tuned ]; then
    build=tuned
    options='--profile tuned --features tuned'
    shift
fi
# The options are several words.
# shellcheck disable=SC2086
cargo build --locked --quiet --manifest-path "$here/rust/Cargo.toml" --target-dir "$folder" $options >&2
exec "$folder/$build/peer" "$port" "$@"
