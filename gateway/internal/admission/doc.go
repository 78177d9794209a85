// Package admission decides how much a caller may, and is the only package of
// the gateway that talks to Redis. Redis holds nothing that may not be lost: its
// loss makes revocations slower to arrive, never an error.
package admission
