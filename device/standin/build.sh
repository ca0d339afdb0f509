#!/usr/bin/env bash
# Builds the stand-in and lays it out under PREFIX as HailoRT's installer would: headers, library, version file.
#   device/standin/build.sh PREFIX
# HAILORT_DIR=PREFIX then makes `--features hailo` use it. Needs a C++17 compiler ($CXX, or c++) and nothing else.
set -euo pipefail
[ $# -eq 1 ] || { echo 'usage: build.sh PREFIX' >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
# What version it says it is; another one is for tests of the checks.
version=${STANDIN_VERSION:-5.2.0}
IFS=. read -r major minor revision <<< "$version"

mkdir -p "$1/include" "$1/lib/cmake/HailoRT"
prefix=$(cd "$1" && pwd)
cp -R "$here/include/hailo" "$prefix/include/"
"${CXX:-c++}" -std=c++17 -O2 -g -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -pthread \
    -DSTANDIN_MAJOR="$major" -DSTANDIN_MINOR="$minor" -DSTANDIN_REVISION="$revision" \
    -I"$here/include" -I"$here/src" "$here"/src/*.cpp \
    -Wl,-soname,"libhailort.so.$version" -o "$prefix/lib/libhailort.so.$version"
ln -sf "libhailort.so.$version" "$prefix/lib/libhailort.so"
cat > "$prefix/lib/cmake/HailoRT/HailoRTConfigVersion.cmake" << END
set(PACKAGE_VERSION "$version")
END
