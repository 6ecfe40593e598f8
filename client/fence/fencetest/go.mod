module ticketing.internal/client/fence/fencetest

go 1.26.0

require ticketing.internal v0.0.0

require github.com/lib/pq v1.12.3

replace ticketing.internal => ../../..
