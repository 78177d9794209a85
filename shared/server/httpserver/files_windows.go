package httpserver

// openFiles is mostFiles: Windows has no limit.
func openFiles() int { return mostFiles }
