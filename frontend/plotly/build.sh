#!/bin/sh
# Builds frontend/static/vendor/plotly.min.js, and its form for the wire beside it: sh frontend/plotly/build.sh
#
# The whole of plotly.js is 4.8 MB, of which the console draws with a third. Node 20 and npm are needed here and
# nowhere else: the result is committed, and the sums beside this file say whether it still is that result.
# For another version: change it in package.json, run `npm install --package-lock-only` here, then this.
set -eu
cd "$(dirname "$0")"

npm ci --ignore-scripts --no-audit --no-fund
version=$(node -p 'require("plotly.js/package.json").version')
target=../static/vendor/plotly.min.js
# As plotly.js's own build: esbuild-config.js in its package. Style sheets are those of maps, which are left out.
./node_modules/.bin/esbuild bundle.js --bundle --minify --format=iife --global-name=Plotly --target=es2016 \
    --define:global=window --define:define.amd=false --define:process.env.NODE_DEBUG=false --loader:.css=empty \
    --legal-comments=eof --charset=utf8 --log-level=warning --outfile="$target" \
    --banner:js="/*! plotly.js v$version, parts of: see frontend/plotly. Copyright Plotly, Inc. MIT license */"
cp node_modules/plotly.js/LICENSE ../static/vendor/plotly.LICENSE.txt
gzip --best --no-name --keep --force "$target"
(cd ../static/vendor && sha256sum plotly.min.js plotly.min.js.gz) >SHA256SUMS
