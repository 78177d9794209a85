//go:build unix

package main

// prepareConsole has nothing to do: terminals take escape sequences.
func prepareConsole() {}
