// Package localup finds the `forgequeue up`s that run on this machine: their addresses and keys. It starts nothing, so
// that a command that only calls a server does not have the services in it.
package localup

// Running is an `up` that runs on this machine, as its data folder describes it.
type Running struct {
	// Gateway is the URL of the public API.
	Gateway     string
	APIKey      string
	OperatorKey string
	// DatabaseURL and RedisURL are the stores that it started; empty for those of its
	// environment.
	DatabaseURL, RedisURL string
	// Data is the folder.
	Data string
}
