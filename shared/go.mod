module github.com/forgequeue/forgequeue/shared

go 1.26.0
