#!/usr/bin/env node
// Starts the build of this package; its source is src/apiserver/main.ts.

import "../dist/apiserver/main.js";
