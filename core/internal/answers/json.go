package answers

import "github.com/forgequeue/forgequeue/shared/server/wirejson"

// JSON writes what encoding/json would, and faster; the gateway passes it on.
func JSON(value any) ([]byte, error) { return wirejson.Marshal(value) }
