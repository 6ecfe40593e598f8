package main

// modulePath is the module whose packages are held to the policy; nested modules have their own.
const modulePath = "ticketing.internal"

// allowedModules is everything go.mod may require, directly or not.
var allowedModules = []string{"golang.org/x/sys", "golang.org/x/crypto"}

// mayImport is the order of the packages: what each may import of ours. A package that is not listed here has
// no place in the order yet.
var mayImport = map[string][]string{
	"wire":          {},
	"auth":          {},
	"tlsconf":       {},
	"lock":          {"wire"},
	"raft":          {},
	"raft/rafttest": {"raft", "lock", "wire"},
	"server":        {"wire", "auth", "tlsconf", "lock", "raft"},
	"client":        {"wire", "auth", "tlsconf"},
	"client/fence":  {},
	"cmd/ticketing": {"wire", "auth", "tlsconf", "server", "client"},
	"interop":       {},
}

// testsMayImport is what the tests of a package may import beyond that: the other end of the wire.
var testsMayImport = map[string][]string{
	"raft":          {"raft/rafttest"},
	"server":        {"client"},
	"client":        {"server", "lock"},
	"cmd/ticketing": {"raft"}, // to act as a node
	"interop":       {"wire", "auth", "tlsconf", "client", "server"},
}

// pure packages decide everything from their inputs: same input, same output, in one goroutine.
var pure = map[string]bool{"lock": true, "raft": true}

// pureImports is all that a pure package may import beside what mayImport gives it: nothing here reaches a
// clock, a socket, the scheduler or the environment but for the functions in impureFunctions.
var pureImports = map[string]bool{
	"bytes": true, "cmp": true, "container/heap": true, "encoding/binary": true, "encoding/hex": true,
	"errors": true, "fmt": true, "hash": true, "hash/crc32": true, "hash/fnv": true, "hash/maphash": true,
	"io": true, "iter": true, "math": true, "math/bits": true, "math/rand/v2": true, "slices": true,
	"sort": true, "strconv": true, "strings": true, "time": true, "unicode/utf8": true, "unsafe": true,
	"crypto/sha256": true, "golang.org/x/crypto/cryptobyte": true,
}

// randConstructors are the functions of math/rand/v2 that do not draw from its global source.
var randConstructors = map[string]bool{"New": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true}

// clockReads are the functions of package time that read the clock.
var clockReads = map[string]bool{"Now": true, "Since": true, "Until": true}

// timers are the functions of package time that start a timer.
var timers = map[string]bool{
	"Sleep": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true,
}

// clockFiles is where a package may read the clock; every other package and file takes `now` as a parameter.
// A prefix covers the builds of one subject (clock_linux.go, clock_other.go).
var clockFiles = map[string]string{
	"server":        "clock",
	"client":        "clock",
	"cmd/ticketing": "",
}

// immutableTypes are pointer types that nobody changes once they are made.
var immutableTypes = map[string]bool{
	"*regexp.Regexp": true, "*strings.Replacer": true, "*hash/crc32.Table": true,
	"*encoding/base64.Encoding": true, "*html/template.Template": true, "*text/template.Template": true,
}

// stamps are the strings of package main that the linker sets.
var stamps = map[string]bool{"version": true, "commit": true}

// ban forbids a function of another package, says what to use instead, and where it is allowed all the same.
type ban struct {
	pkg, name string // name "" forbids the import itself
	instead   string
	tests     bool     // the ban holds in test files too
	except    []string // package folders
}

var bans = []ban{
	{pkg: "log", instead: "log/slog, on the logger that was handed in", tests: true},
	{pkg: "math/rand", instead: "a *rand.Rand of math/rand/v2 that was handed in", tests: true},
	{pkg: "io/ioutil", instead: "io and os", tests: true},
	{pkg: "time", name: "Sleep", instead: "testing/synctest or ticks in tests, a timer that can be stopped elsewhere", tests: true},
	{pkg: "time", name: "Tick", instead: "time.NewTicker, which can be stopped", tests: true},
	{pkg: "context", name: "TO" + "DO", instead: "the caller's context", tests: true},
	{pkg: "sort", name: "Slice", instead: "slices.SortFunc", tests: true},
	{pkg: "sort", name: "Strings", instead: "slices.Sort", tests: true},
	{pkg: "fmt", name: "Print", instead: "fmt.Fprint on the writer that was handed in"},
	{pkg: "fmt", name: "Printf", instead: "fmt.Fprintf on the writer that was handed in"},
	{pkg: "fmt", name: "Println", instead: "fmt.Fprintln on the writer that was handed in"},
	{pkg: "log/slog", name: "SetDefault", instead: "the logger that was handed in", tests: true},
	{pkg: "os", name: "Exit", instead: "an error; main alone exits", except: []string{"cmd/ticketing"}},
	{pkg: "os", name: "Getenv", instead: "the configuration; cmd and client.FromEnv read the environment", except: []string{"client", "cmd/ticketing"}},
	{pkg: "os", name: "LookupEnv", instead: "the configuration; cmd and client.FromEnv read the environment", except: []string{"client", "cmd/ticketing"}},
	{pkg: "os", name: "Environ", instead: "the configuration; cmd and client.FromEnv read the environment", except: []string{"client", "cmd/ticketing"}},
	{pkg: "net/http", name: "HandleFunc", instead: "a mux of one's own", tests: true},
	{pkg: "net/http", name: "Handle", instead: "a mux of one's own", tests: true},
	{pkg: "net/http", name: "ListenAndServe", instead: "an http.Server with time limits", tests: true},
	{pkg: "net/http", name: "Get", instead: "an http.Client with a time limit"},
	{pkg: "reflect", name: "DeepEqual", instead: "==, slices.Equal, maps.Equal, or a comparison that says what differs"},
}
