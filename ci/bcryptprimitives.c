/*
 * bcryptprimitives.dll for a Wine that lacks it (8.0 and older): the one function of it that Rust's standard library
 * imports, for the seeds of its hash maps.
 *
 *   ProcessPrng(buffer, size)  ──▶  RtlGenRandom of advapi32, which is exported as SystemFunction036
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T size)
{
    while (size > 0) {
        ULONG piece = size > 0x10000000 ? 0x10000000 : (ULONG)size;
        if (!SystemFunction036(buffer, piece))
            return FALSE;
        buffer += piece;
        size -= piece;
    }
    return TRUE;
}
