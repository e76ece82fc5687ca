package main

const (
	sysRtSigqueueinfo   = 129
	sysRtTgsigqueueinfo = 297
	sysMovePages        = 279
	sysSetns            = 308
	sysProcessVMReadv   = 310
	sysProcessVMWritev  = 311
	sysKcmp             = 312
)
