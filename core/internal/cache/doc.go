// Package cache holds what changes rarely in memory: lanes, queue settings, limits, and which
// workers serve which queue. Refreshes read what has changed; an entry is at most a refresh old.
package cache
