module github.com/forgequeue/forgequeue/cmd/supervisor

go 1.26.0

require github.com/forgequeue/forgequeue/shared v0.0.0

replace github.com/forgequeue/forgequeue/shared => ../../shared
