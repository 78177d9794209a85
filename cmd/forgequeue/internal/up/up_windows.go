package up

import (
	"context"
	"errors"
)

// Run returns a SettingError with advice: PostgreSQL and Redis run as children on Unix only.
func Run(context.Context, Options) error {
	return &SettingError{errors.New(`up needs Linux or macOS: on Windows it cannot run PostgreSQL and Redis.

Three ways on:
  1. WSL2:                wsl --install, then run forgequeue up in its shell, from the archive for Linux
  2. Docker Compose:      "Deploying it" in README.md has the steps; run them in the shell of WSL2
  3. A server elsewhere:  set FORGEQUEUE_URL and FORGEQUEUE_API_KEY
The other commands work on Windows, with any of these servers.`)}
}
