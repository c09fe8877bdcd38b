#!/bin/sh
# Installs Debian's Chromium for the browser tests where that is allowed; never fails, since the
# tests skip, and say so, where there is none.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing chromium for the browser tests"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
        --no-install-recommends chromium; } >/dev/null 2>&1 ||
        echo "It could not be installed: the browser tests will be skipped"
else
    echo "No chromium here, and no right to install it: the browser tests will be skipped"
fi
exit 0
