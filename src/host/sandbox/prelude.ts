/**
 * The program around functions of design documents within the sandbox. Compiles their sources, and
 * provides `require` for the document's modules and the functions of CouchDB's query server (`log`,
 * `sum`, `isArray`, `toJSON`, `emit`).
 *
 * The program is evaluated once per design document, with `designPlaces` (the ids of the document's
 * JSON text and lazy members) and the host functions. The program returns a function from JSON text
 * to JSON text. Before any user code runs, the program saves references to builtins.
 */
export const SANDBOX_PRELUDE = String.raw`
(function (designPlaces, host) {
  var root = globalThis;
  var startRun = host.startRun;
  var isSliceOver = host.isSliceOver;
  var writeLog = host.writeLog;
  var readPiece = host.readPiece;
  var evaluate = root.eval;
  var parse = JSON.parse;
  var print = JSON.stringify;
  var hasOwn = Object.prototype.hasOwnProperty;
  var isArray = Array.isArray;
  var define = Reflect.defineProperty;
  var design = lateValue(parse(designPlaces));
  var compiled = Object.create(null);
  /** Compiled wrapper functions of modules, not yet run. */
  var wrappers = Object.create(null);
  /** Names of modules compiled on demand. */
  var wanted = [];
  var modules = Object.create(null);
  var emitted = false;

  root.Math.random = host.random;
  root.toJSON = print;
  root.isArray = Array.isArray;
  root.sum = function (values) {
    return values.reduce(function (total, value) { return total + value; }, 0);
  };
  root.log = function (message) {
    var shown = message instanceof Error ? { error: message.name, message: message.message } : message;
    writeLog(typeof shown === "string" ? shown : String(print(shown)));
  };
  root.emit = function () { emitted = true; };

  /** Fetches a string in chunks, by its id. */
  function lateText(id) {
    var pieces = [];
    for (;;) {
      var piece = readPiece(id, pieces.length);
      if (piece === undefined) break;
      pieces[pieces.length] = piece;
    }
    if (pieces.length === 0) throw new Error("The document of an earlier run is no longer available");
    return joined(pieces);
  }

  /**
   * Joins pairwise. Array.join grows its buffer repeatedly, and so needs more memory than the
   * result.
   */
  function joined(pieces) {
    while (pieces.length > 1) {
      var longer = [];
      for (var index = 0; index < pieces.length; index += 2) {
        longer[index / 2] = index + 1 < pieces.length ? pieces[index] + pieces[index + 1] : pieces[index];
      }
      pieces = longer;
    }
    return pieces[0];
  }

  /** Parses a value, given the id of its JSON text, then the name and id of each lazy member. */
  function lateValue(places) {
    var value = parse(lateText(places[0]));
    for (var index = 1; index < places.length; index++) {
      defineLate(value, places[index][0], places[index][1], places[index][2]);
    }
    return value;
  }

  function defineLate(object, name, id, isPlain) {
    var value;
    var isThere = false;
    function get() {
      if (!isThere) value = isPlain ? lateText(id) : parse(lateText(id));
      isThere = true;
      return value;
    }
    function set(other) {
      define(this, name, { value: other, writable: true, enumerable: true, configurable: true });
    }
    define(object, name, { get: get, set: set, enumerable: true, configurable: true });
  }

  function argumentsOf(run) {
    if (isArray(run)) return run;
    var values = [];
    for (var index = 0; index < run.late.length; index++) values[index] = lateValue(run.late[index]);
    return values;
  }

  function failure(error, reason) { return ["error", error, reason]; }

  function textOf(error) {
    return error instanceof Error ? error.name + ": " + error.message : String(error);
  }

  /**
   * Returns the value of a program's last statement. The program may begin with an anonymous
   * function.
   */
  function evaluateProgram(source) {
    try {
      return evaluate(source);
    } catch (error) {
      var isNameless = error instanceof SyntaxError && error.message === "function name expected";
      if (!isNameless) throw error;
      return evaluate("0," + source);
    }
  }

  function functionOf(source) {
    if (typeof source !== "string" || source === "") throw failure("not_found", "missing function");
    var expression = source.replace(/[\s;]+$/, "");
    var value;
    try {
      try {
        value = evaluate("(" + expression + "\n)");
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        value = evaluateProgram(source);
      }
    } catch (error) {
      throw failure("compilation_error", textOf(error) + " (" + source + ")");
    }
    if (typeof value === "function") return value;
    throw failure("compilation_error", "Expression does not eval to a function. (" + source + ")");
  }

  function member(parent, name) {
    return parent !== null && typeof parent === "object" && hasOwn.call(parent, name) ? parent[name] : undefined;
  }

  /** Resolves a module name to the path of its source within the document. */
  function resolve(name, folder) {
    var names = String(name).split("/");
    var path = names[0] === "." || names[0] === ".." ? folder.slice() : [];
    for (var index = 0; index < names.length; index++) {
      var part = names[index];
      if (part === ".") continue;
      if (part === "..") {
        if (path.length === 0) throw failure("invalid_require_path", "Object has no parent " + print(name));
        path.pop();
      } else path.push(part);
    }
    return path;
  }

  function requireFrom(folder) {
    return function (name) {
      var path = resolve(name, folder);
      var id = path.join("/");
      if (modules[id] !== undefined) return modules[id].exports;
      var source = sourceOf(path, name);
      var module = { id: id, exports: {} };
      modules[id] = module;
      try {
        var body = wrappers[id];
        if (body === undefined) {
          wanted[wanted.length] = id;
          body = wrap(source);
        }
        body.call(root, module, module.exports, requireFrom(path.slice(0, -1)));
      } catch (error) {
        delete modules[id];
        if (Array.isArray(error)) throw error;
        throw failure("compilation_error", "Module require('" + name + "') raised error " + textOf(error));
      }
      return module.exports;
    };
  }
  function sourceOf(path, name) {
    var source = design;
    for (var index = 0; index < path.length; index++) {
      source = member(source, path[index]);
      if (source === undefined) {
        throw failure("invalid_require_path", 'Object has no property "' + path[index] + '". ' + print(name));
      }
    }
    if (typeof source === "string") return source;
    throw failure("invalid_require_path", "Must require a JavaScript string, not: " + typeof source);
  }

  function wrap(source) {
    return evaluate("(function (module, exports, require) { " + source + "\n })");
  }

  /** Compiles a function and modules without running them. */
  function compile(path, ids) {
    if (path.length > 0) find(path);
    for (var index = 0; index < ids.length; index++) {
      wrappers[ids[index]] = wrap(sourceOf(resolve(ids[index], []), ids[index]));
    }
  }

  root.require = requireFrom([]);

  function find(path) {
    var id = print(path);
    if (compiled[id] === undefined) {
      var source = design;
      for (var index = 0; index < path.length; index++) {
        source = member(source, path[index]);
        if (source === undefined) throw failure("not_found", "missing json key: " + path[index]);
      }
      compiled[id] = functionOf(source);
    }
    return compiled[id];
  }

  function plain(value) {
    var text = typeof value === "string" ? value : print(value);
    return text === undefined ? String(value) : text;
  }

  /** Describes an exception in CouchDB's terms. A validation can also throw a refusal. */
  function thrown(error, isValidation) {
    if (Array.isArray(error)) return { error: plain(error[1]), reason: plain(error[2]) };
    if (error instanceof Error) return { error: error.name, reason: error.message };
    if (isValidation && error !== null && typeof error === "object") {
      if (hasOwn.call(error, "forbidden")) return { error: "forbidden", reason: plain(error.forbidden) };
      if (hasOwn.call(error, "unauthorized")) return { error: "unauthorized", reason: plain(error.unauthorized) };
      var names = Object.keys(error);
      if (names.length > 0) return { error: "unknown_error", reason: plain(error[names[0]]) };
    }
    return { error: isValidation ? "unknown_error" : "unnamed_error", reason: plain(error) };
  }

  var kinds = {
    filter: function (fun, args) { return !!fun.apply(design, args); },
    view: function (fun, args) {
      emitted = false;
      fun.apply(null, args);
      return emitted;
    },
    validate: function (fun, args) {
      try {
        fun.apply(design, args);
        return null;
      } catch (error) {
        // A function that runs out of memory has not rejected the document.
        if (error instanceof Error && error.name === "InternalError") throw error;
        return thrown(error, true);
      }
    },
    resolve: function (fun, documents) {
      var texts = [];
      for (var at = 0; at < documents.length; at++) texts[at] = print(documents[at]);
      forgetChance();
      var result = fun.call(design, documents);
      if (result === null || result === undefined) return null;
      if (typeof result !== "object" || isArray(result)) {
        throw failure("invalid_result", "The function must return a document or null");
      }
      var text = print(result);
      for (var index = 0; index < texts.length; index++) if (texts[index] === text) return index;
      return text;
    },
  };

  /** Removes clocks and randomness, because a function's result must be equal on all servers. */
  function forgetChance() {
    var RealDate = root.Date;
    function refuse(name) {
      return function () {
        throw new Error(name + " is not available: the result must depend on the documents only");
      };
    }
    root.Math.random = refuse("Math.random");
    root.Date = new Proxy(RealDate, {
      apply: refuse("The current time"),
      construct: function (target, args) {
        return args.length === 0 ? refuse("The current time")() : Reflect.construct(target, args);
      },
    });
    RealDate.now = refuse("Date.now");
    RealDate.prototype.constructor = root.Date;
  }

  return function (kind, pathText, runsText, sharedText) {
    try {
      startRun();
      if (kind === "compile") {
        compile.apply(null, parse(pathText));
        return print({ isCompiled: true });
      }
      var fun = find(parse(pathText));
      var runs = parse(runsText);
      var results = [];
      for (var index = 0; index < runs.length; index++) {
        if (index > 0 && isSliceOver()) break;
        startRun();
        results.push(kinds[kind](fun, argumentsOf(runs[index]).concat(parse(sharedText))));
      }
      return print({ results: results, modules: wanted });
    } catch (error) {
      return print({ failure: thrown(error, false), modules: wanted });
    }
  };
})
`;
