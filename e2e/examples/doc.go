// Package examples runs what the documentation shows, as it stands there.
package examples
