#!/bin/sh
# Starts the echo agent on the A2A SDK for JavaScript: javascript.sh PORT FOLDER.
# What it needs is installed below FOLDER on first use.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
port=$1
folder=$2/javascript
for tool in node npm; do
    command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 3; }
done
mkdir -p "$folder"
if [ ! -e "$folder/installed" ]; then
    echo '{"private": true}' >"$folder/package.json"
    (cd "$folder" && npm install --silent --no-audit --no-fund @a2a-js/sdk@1.3.0 express@5 >&2)
    : >"$folder/installed"
fi
# A module finds what it imports beside itself.
cp "$here/javascript.mjs" "$folder/"
cd "$folder"
NODE_ENV=production exec node javascript.mjs "$port"
