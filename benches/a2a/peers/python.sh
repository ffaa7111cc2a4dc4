#!/bin/sh
# Starts the echo agent on the A2A SDK for Python: python.sh PORT FOLDER.
# What it needs is installed below FOLDER on first use.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
port=$1
folder=$2/python
command -v python3 >/dev/null || { echo "python3 is missing" >&2; exit 3; }
if [ ! -e "$folder/installed" ]; then
    python3 -m venv "$folder"
    # The faster uvicorn: with uvloop and httptools.
    "$folder/bin/pip" install --quiet --disable-pip-version-check \
        'a2a-sdk[http-server]==1.3.0' 'uvicorn[standard]' >&2
    : >"$folder/installed"
fi
exec "$folder/bin/python" "$here/python.py" "$port"
